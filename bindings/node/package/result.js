// The outcome of one call. It is read from its JSON when a part of it is first asked for.

/** Returns a part of a result with the bytes of a blob in place of their base64. */
function decodePart(part) {
  return part.type === 'blob' ? { ...part, data: new Uint8Array(Buffer.from(part.data, 'base64')) } : part
}

/** The outcome of one call: parts of a result, or an error. */
export class Result {
  #native
  #record
  #content

  constructor(native) {
    this.#native = native
  }

  #read() {
    return (this.#record ??= JSON.parse(this.#native.json()))
  }

  get ok() {
    return this.#native.ok
  }

  get id() {
    return this.#read().id
  }

  get tool() {
    return this.#read().tool
  }

  get content() {
    return (this.#content ??= this.#read().content.map(decodePart))
  }

  get structured() {
    return this.#read().content.find((part) => part.type === 'json')?.value
  }

  get text() {
    return this.#native.text ?? undefined
  }

  get modelText() {
    return this.#native.modelText
  }

  get error() {
    return this.#read().error
  }

  get metadata() {
    return this.#read().metadata
  }

  toJSON() {
    return this.#read()
  }

  [Symbol.for('nodejs.util.inspect.custom')](_depth, options, inspect) {
    const { tool, ok, error, structured } = this
    return `Result ${inspect(ok ? { tool, ok, structured } : { tool, ok, error }, options)}`
  }
}
