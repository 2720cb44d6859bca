// The outcome of one call.

/** Returns a part of a result with the bytes of a blob in place of their base64. */
function decodePart(part) {
  return part.type === 'blob' ? { ...part, data: new Uint8Array(Buffer.from(part.data, 'base64')) } : part
}

/**
 * The outcome of one call: parts of a result, or an error. Its members are its own and not its class's, because `structuredClone` and
 * `postMessage` copy no others.
 */
export class Result {
  #native

  // Read when they are asked for: both may be as large as the result.
  static #texts = {
    text: { enumerable: true, get() { return this.#native.text ?? undefined } },
    modelText: { enumerable: true, get() { return this.#native.modelText } },
  }

  constructor(native) {
    const { id, tool, status, content, error, metadata } = JSON.parse(native.json())
    this.#native = native
    this.ok = status === 'ok'
    this.ran = native.ran
    this.id = id
    this.tool = tool
    this.content = content.map(decodePart)
    this.structured = content.find((part) => part.type === 'json')?.value
    this.error = error
    this.metadata = metadata
    Object.defineProperties(this, Result.#texts)
  }

  json() {
    const part = this.content.find((part) => part.type === 'json')
    if (part) return part.value
    const reason = this.#native.jsonError()
    if (reason) throw new TypeError(reason)
    return JSON.parse(this.content.find((part) => part.type === 'text').text)
  }

  toJSON() {
    return JSON.parse(this.#native.json())
  }

  [Symbol.for('nodejs.util.inspect.custom')](_depth, options, inspect) {
    const { tool, ok, error, structured } = this
    return `Result ${inspect(ok ? { tool, ok, structured } : { tool, ok, error }, options)}`
  }
}
