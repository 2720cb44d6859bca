// Failures of tools.

const KINDS = ["failed", "invalid_arguments", "unavailable", "denied"];

export class ToolError extends Error {
  constructor(message, kind = "failed", { retryAfter, ...options } = {}) {
    super(message, options);
    if (!KINDS.includes(kind)) {
      throw new TypeError(`\`${kind}\` is no kind of failure; expected one of ${KINDS.join(", ")}`);
    }
    this.name = "ToolError";
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

/** Returns the kind of what was thrown, its message for the model, and the seconds until a retry. */
export function failureOf(error) {
  if (error instanceof ToolError) {
    return { kind: error.kind, message: error.message, retryAfter: error.retryAfter };
  }
  if (error instanceof Error) {
    return { kind: "failed", message: error.message ? `${error.name}: ${error.message}` : error.name };
  }
  return { kind: "failed", message: String(error) };
}
