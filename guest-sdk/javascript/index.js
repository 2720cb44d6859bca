// Tools for language models, which run in the sandbox of Fumehood.

export { context, kv, log, progress, secrets } from "./host.js";
export { Link } from "./content.js";
export { ToolError } from "./errors.js";
export { tool } from "./tool.js";
