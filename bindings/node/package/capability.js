// Capabilities: interfaces of WIT that this program implements.

/** Maximum depth of a value. No type of WIT is deeper, and an object may contain itself. */
const MAX_DEPTH = 40
/** Maximum number of values in one. A function returns at most 2 MiB, of which a value takes 32 bytes, and bytes are one value. */
const MAX_NODES = 2 ** 17

/** Thrown by a function of a capability: the tool gets `payload` as the `err` of the `result` that the WIT declares. */
export class Err extends Error {
  name = 'Err'

  constructor(payload) {
    super('the function returned an err')
    this.payload = payload
  }
}

/** Thrown by a function of a capability: the call of the tool ends with the kind `denied`, and this message. */
export class Denied extends Error {
  name = 'Denied'
}

/** Writes a value as the native module reads it: what JSON lacks is an object with one member. */
function encode(value, budget = { nodes: 0 }, depth = 0) {
  budget.nodes += 1
  if (depth > MAX_DEPTH || budget.nodes > MAX_NODES) return { other: 'an object that is nested too deeply or too large' }
  switch (typeof value) {
    case 'undefined':
      return null
    case 'boolean':
      return value
    case 'string':
      return value.isWellFormed() ? value : { other: 'a text with half of a surrogate pair' }
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? value : { float: Object.is(value, -0) ? '-0' : String(value) }
    case 'bigint':
      return { int: String(value) }
    case 'object':
      return encodeObject(value, budget, depth)
    default:
      return { other: `a ${typeof value}` }
  }
}

function encodeObject(value, budget, depth) {
  if (value === null) return null
  if (value instanceof Uint8Array) {
    return { bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') }
  }
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, (item) => encode(item, budget, depth + 1))
  const members = value instanceof Map ? [...value] : Object.entries(value)
  return { dict: Object.fromEntries(members.map(([name, member]) => [name, encode(member, budget, depth + 1)])) }
}

/** Reads a value that the native module wrote. */
function decode(value) {
  if (Array.isArray(value)) return value.map(decode)
  if (typeof value !== 'object' || value === null) return value ?? undefined
  if (value.int !== undefined) return BigInt(value.int)
  if (value.float !== undefined) return Number(value.float)
  if (value.bytes !== undefined) return new Uint8Array(Buffer.from(value.bytes, 'base64'))
  return Object.fromEntries(Object.entries(value.dict).map(([name, member]) => [name, decode(member)]))
}

/** The call of a tool that uses a capability. */
class CapabilityContext {
  #calls
  #id

  constructor(calls, { id, component, tool, callId, actor, grant }, signal) {
    this.#calls = calls
    this.#id = id
    this.component = component ?? undefined
    this.tool = tool
    this.callId = callId
    this.actor = actor ?? undefined
    this.grant = JSON.parse(grant)
    this.signal = signal
  }

  get timeLeft() {
    return this.#calls.timeLeft(this.#id)
  }

  refuse(tried, because) {
    this.#calls.refuse(this.#id, String(tried), String(because))
  }
}

/** Runs one function, and ends its call with the outcome. */
async function run(calls, functions, call, signal) {
  try {
    const context = new CapabilityContext(calls, call, signal)
    const value = await functions[call.capability][call.function](context, ...call.arguments.map(decode))
    calls.finish(call.id, JSON.stringify(encode(value)))
  } catch (error) {
    if (error instanceof Err) calls.fail(call.id, 'err', JSON.stringify(encode(error.payload)))
    else if (error instanceof Denied) calls.fail(call.id, 'denied', error.message)
    else calls.fail(call.id, 'failed', describe(error))
  }
}

/** Anything can be thrown, also an object that has no text. */
function describe(error) {
  try {
    return String(error)
  } catch {
    return 'it threw an object without a text'
  }
}

/** Returns the function that begins what waits in `calls`. It does not refer to the host, which could not be collected otherwise. */
export function functionRunner(calls, capabilities) {
  const functions = capabilities.map((capability) => Object.values(capability.functions))
  const running = new Map()
  return () => {
    for (const notice of calls.take()) {
      const call = JSON.parse(notice)
      if (call.stop !== undefined) {
        running.get(call.stop)?.abort(new DOMException('the tool has stopped', 'AbortError'))
        continue
      }
      const controller = new AbortController()
      running.set(call.id, controller)
      run(calls, functions, call, controller.signal).finally(() => running.delete(call.id))
    }
  }
}

/** Checks capabilities, of which the native module would say less, and describes them to it. */
export function describeCapabilities(capabilities) {
  return capabilities.map(({ name, description, wit, functions }) => {
    const texts = { name, description, wit }
    for (const [option, value] of Object.entries(texts)) {
      if (typeof value !== 'string') throw new TypeError(`expected a text as \`${option}\` of a capability, got ${typeof value}`)
    }
    for (const [key, value] of Object.entries(functions ?? {})) {
      if (typeof value !== 'function') throw new TypeError(`expected a function as \`${key}\` of \`${name}\`, got ${typeof value}`)
    }
    return [name, description, wit, Object.keys(functions ?? {})]
  })
}
