// Uses tasks of a server with the client of the Tasks extension: tasks.mjs EXT_TASKS_CLIENT URL

const [library, url] = process.argv.slice(2);
const { resultFromTaskOutcome, withTasks } = await import(library);

const PROTOCOL = "2026-07-28";
const capabilities = { extensions: { "io.modelcontextprotocol/tasks": {} } };
let next = 1;

// The connection of one client. The library leaves the transport to its user.
function connect() {
  return {
    endpointId: "fumehood",
    taskCapabilities: { generation: "v2", capabilities: {} },
    invalidated: false,
    onServerRequest: () => () => {},
    onNotification: () => () => {},
    onInvalidated: () => () => {},
    async dispatch(request, options) {
      const params = structuredClone(request.params ?? {});
      params._meta = {
        ...params._meta,
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": { name: "ext-tasks", version: "0" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
      };
      const answer = await fetch(url, {
        method: "POST",
        signal: options?.signal,
        headers: {
          "Content-Type": "application/json",
          Accept: "application/json, text/event-stream",
          "MCP-Protocol-Version": PROTOCOL,
          "Mcp-Method": request.method,
          "Mcp-Name": params.taskId ?? params.name ?? "",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: next++, method: request.method, params }),
      });
      const text = await answer.text();
      const events = text.split("\n").filter((line) => line.startsWith("data: {"));
      const message = JSON.parse(events.length > 0 ? events.at(-1).slice("data: ".length) : text);
      return message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
    },
  };
}

async function settled(execution) {
  const { outcome } = await execution.settle();
  return resultFromTaskOutcome(outcome);
}

const first = withTasks(connect());
const quick = await first.callTool("calculator__add", { a: 3, b: 5 });
console.log("quick:", quick.kind, JSON.stringify((await settled(quick)).structuredContent));

const long = await first.callTool("countdown__countdown", { from: 20, step_ms: 50 });
console.log("long:", long.kind);
let reference;
await long.handoff((it) => {
  reference = JSON.parse(JSON.stringify(it));
});

// As another process of the same client. The first does not close its session, which would cancel the task.
const second = withTasks(connect());
const resumed = await second.resumeTask(reference);
console.log("resumed:", JSON.stringify((await settled(resumed)).structuredContent));

const cancelled = await second.callTool("countdown__countdown", { from: 100, step_ms: 100 });
await cancelled.cancel();
console.log("cancelled:", (await cancelled.settle()).outcome.status);
await second.close();
process.exit(0);
