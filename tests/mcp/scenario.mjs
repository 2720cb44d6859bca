// What the command line does in a client scenario of the official conformance suite.
//
// usage: node scenario.mjs FUMEHOOD URL
//
// The suite says in MCP_CONFORMANCE_SCENARIO which one it is, and in MCP_CONFORMANCE_CONTEXT what else there is to know.
// In every scenario the tools are listed. Then those are called that the scenario is about, or else all, without arguments.
// Where a login is needed, it is that of the command line, and a browser is what opens its address here.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [program, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");

function run(command, options = {}) {
  const ran = spawnSync(program, command, { encoding: "utf8", timeout: 20_000, ...options });
  process.stderr.write(ran.stderr);
  process.stdout.write(ran.stdout);
  return { code: ran.status ?? -1, said: ran.stdout, complained: ran.stderr };
}

const fumehood = (...command) => run(["--json", "--no-cache", "mcp", ...command]);

function calls(tools) {
  const schema = tools.find((tool) => tool.name === "json_schema_2020_12_tool")?.input_schema;
  switch (scenario) {
    case "tools_call":
      return [["add_numbers", { a: 5, b: 3 }]];
    case "http-invalid-tool-headers":
      // Whatever else was let in is called as well, which the suite would hold against us.
      return tools.map((tool) => [tool.name, tool.name === "valid_tool" ? { region: "us" } : {}]);
    case "http-custom-headers":
      // `null` fits no schema there, and stands for an argument that is left out.
      return context.toolCalls.map((call) => [
        call.name,
        Object.fromEntries(Object.entries(call.arguments).filter(([, value]) => value !== null)),
      ]);
    case "json-schema-ref-no-deref":
      // It is about the list; a tool whose schema refers elsewhere cannot be called.
      return [];
    case "json-schema-2020-12-preservation":
      return [["json_schema_echo", { schema }]];
    default:
      return tools.map((tool) => [tool.name, {}]);
  }
}

// Lists the tools, and calls those that the scenario is about.
function useTools() {
  const listed = fumehood("list", url);
  if (listed.code !== 0) {
    return listed.code;
  }
  const codes = calls(JSON.parse(listed.said).tools).map(
    ([tool, given]) => fumehood("call", tool, JSON.stringify(given), "--timeout", "10s", "--", url).code,
  );
  return Math.max(0, ...codes);
}

// Opens the address of a login, as a browser whose owner agrees.
async function agree(address) {
  const answer = await fetch(address, { redirect: "manual" });
  const back = answer.headers.get("location");
  if (back) {
    await fetch(back);
  }
}

// Logs in with `fumehood mcp login`, and has a scripted model call the tool: what an operator does whose server requires a login.
// Whoever is asked to log in again does so once.
async function useToolsWithLogin() {
  const folder = mkdtempSync(join(tmpdir(), "fumehood-login-"));
  const env = { ...process.env, HOME: folder, XDG_STATE_HOME: join(folder, "state"), XDG_CACHE_HOME: join(folder, "cache") };
  const options = { cwd: folder, env };
  const configured = (...command) => run(["--config", "fumehood.toml", "--no-cache", ...command], options);

  const login = () =>
    new Promise((ended) => {
      const waiting = spawn(program, ["--config", "fumehood.toml", "mcp", "login", "suite", "--timeout", "15s"], options);
      let said = "";
      let address;
      waiting.stderr.on("data", (more) => {
        process.stderr.write(more);
        said += more;
        const found = /\n(https?:\S+)\n/.exec(said)?.[1];
        if (found && !address) {
          address = found;
          agree(address).catch((error) => process.stderr.write(`${error}\n`));
        }
      });
      waiting.on("exit", (code) => ended(code ?? -1));
    });

  try {
    const registered = [];
    if (context.client_id && context.client_secret) {
      // An operator who got them by hand knows for which authorization server.
      const metadata = await fetch(new URL(`/.well-known/oauth-protected-resource${new URL(url).pathname}`, url));
      const issuer = (await metadata.json()).authorization_servers[0];
      registered.push(`client_id = "${context.client_id}"`, `client_secret = { env = "CLIENT_SECRET" }`);
      registered.push(`authorization_server = "${issuer}"`);
      env.CLIENT_SECRET = context.client_secret;
    }
    const section = [`[mcp.servers.suite]`, `url = "${url}"`, `login = { ${registered.join(", ")} }`];
    writeFileSync(join(folder, "fumehood.toml"), `${section.join("\n")}\n`);
    const answers = [{ calls: [{ name: "suite__test-tool", arguments: {} }] }, { text: "It was called." }];
    writeFileSync(join(folder, "script.jsonl"), answers.map((answer) => `${JSON.stringify(answer)}\n`).join(""));
    // The address is approved, although the tools cannot be looked at yet.
    configured("approve", "suite", "--yes");
    let code = -1;
    for (let attempt = 0; attempt < 2; attempt++) {
      code = await login();
      if (code !== 0) {
        return code;
      }
      configured("approve", "suite", "--yes");
      const ran = configured("run", "--script", "script.jsonl", "Call the tool.");
      code = ran.code;
      if (!`${ran.said}${ran.complained}`.includes("requires a login")) {
        break;
      }
    }
    return code;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = scenario?.startsWith("auth/") ? await useToolsWithLogin() : useTools();
