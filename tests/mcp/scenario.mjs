// What the command line does in a client scenario of the official conformance suite.
//
// usage: node scenario.mjs FUMEHOOD URL
//
// The suite says in MCP_CONFORMANCE_SCENARIO which one it is, and in MCP_CONFORMANCE_CONTEXT what else there is to know.
// In every scenario the tools are listed. Then those are called that the scenario is about, or else all, without arguments.

import { spawnSync } from "node:child_process";

const [program, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");

function fumehood(...command) {
  const ran = spawnSync(program, ["--json", "--no-cache", "mcp", ...command], { encoding: "utf8", timeout: 20_000 });
  process.stderr.write(ran.stderr);
  process.stdout.write(ran.stdout);
  return { code: ran.status ?? -1, said: ran.stdout };
}

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

const listed = fumehood("list", url);
let worst = listed.code;
if (worst === 0) {
  for (const [tool, given] of calls(JSON.parse(listed.said).tools)) {
    const { code } = fumehood("call", tool, JSON.stringify(given), "--timeout", "10s", "--", url);
    worst = Math.max(worst, code);
  }
}
process.exitCode = worst;
