// The exports of a component with the tools of a module.

import { installConsole } from "./console.js";
import { toContent, toJson } from "./content.js";
import { beginCalls } from "./engine.js";
import { failureOf, ToolError } from "./errors.js";
import { log } from "./host.js";
import { describe, framesOf } from "./stack.js";
import { callTool, tools as registered } from "./tool.js";

const { positions: rows, module } = globalThis.fumehoodBuild;
/** Writes to stderr, which is no log. */
const writeError = console.error;

if (registered.size === 0) {
  throw new TypeError(`${module} has no tools; make one with \`tool({ … })\` of fumehood-tool`);
}

let isBegun = false;

function begin() {
  if (!isBegun) {
    isBegun = true;
    beginCalls();
    installConsole();
  }
}

export const tools = {
  describe() {
    begin();
    return Array.from(registered.values(), (tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description,
      inputSchema: JSON.stringify(tool.inputSchema),
      outputSchema: tool.outputSchema && JSON.stringify(tool.outputSchema),
      annotations: {
        readOnly: tool.readOnly,
        destructive: tool.destructive,
        idempotent: tool.idempotent,
        openWorld: tool.openWorld,
      },
    }));
  },

  async call(request) {
    begin();
    try {
      const tool = registered.get(request.tool);
      const result = await callTool(tool, JSON.parse(request.arguments));
      return tool.outputSchema === undefined ? await toContent(result) : toJson(result);
    } catch (error) {
      report(error);
      const { kind, message, retryAfter } = failureOf(error);
      const retryAfterMs = retryAfter === undefined ? undefined : BigInt(Math.round(retryAfter * 1000));
      throw { kind: kind.replace("_", "-"), message, retryAfterMs };
    }
  },
};

/** Tells the operator where the tool failed. A failure that the tool chose itself is no fault. */
function report(error) {
  const positions = JSON.parse(rows);
  const [place] = framesOf(error?.stack, positions);
  const where = place ? ` at ${place.file}:${place.line}` : "";
  if (error instanceof ToolError) {
    log.info(`failed${where}: ${error.message}`);
    return;
  }
  log.error(`${error?.name ?? "error"}${where}`);
  writeError(describe(error, positions));
}
