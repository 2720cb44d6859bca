// `console` of a component: lines of the log.

import { writeLog } from "#host";

/** The depth to which objects are shown. */
const MAX_DEPTH = 4;

function inspect(value, depth = 0) {
  if (typeof value === "string") {
    return depth === 0 ? value : JSON.stringify(value);
  }
  if (typeof value === "bigint") {
    return `${value}n`;
  }
  if (typeof value === "function") {
    return `[function ${value.name}]`;
  }
  if (value instanceof Error) {
    return `${value.name}: ${value.message}`;
  }
  if (value instanceof Date || value instanceof RegExp || value === null || typeof value !== "object") {
    return String(value);
  }
  if (depth === MAX_DEPTH) {
    return Array.isArray(value) ? "[…]" : "{…}";
  }
  const show = (part) => inspect(part, depth + 1);
  if (value instanceof Map) {
    return `Map { ${Array.from(value, ([key, part]) => `${show(key)} => ${show(part)}`).join(", ")} }`;
  }
  if (Array.isArray(value) || ArrayBuffer.isView(value) || value instanceof Set) {
    return `[${Array.from(value, show).join(", ")}]`;
  }
  const parts = Object.entries(value).map(([name, part]) => `${name}: ${show(part)}`);
  return parts.length === 0 ? "{}" : `{ ${parts.join(", ")} }`;
}

/** Joins the arguments of `console.log`, whose first one may have places for the others. */
function format([first, ...rest]) {
  const filled =
    typeof first === "string"
      ? first.replace(/%[sdifoOj%]/g, (place) => (place === "%%" ? "%" : rest.length > 0 ? inspect(rest.shift()) : place))
      : inspect(first);
  return [filled, ...rest.map((value) => inspect(value))].join(" ");
}

const LEVELS = { trace: "trace", debug: "debug", log: "info", info: "info", dir: "info", warn: "warn", error: "error" };

/** Sends what is printed to the log of the host, once calls begin. */
export function installConsole() {
  for (const [name, level] of Object.entries(LEVELS)) {
    console[name] = (...values) => writeLog(level, values.length === 0 ? "" : format(values));
  }
  console.assert = (holds, ...values) => holds || console.error("assertion failed:", ...values);
}
