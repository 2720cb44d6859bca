// Runs the tools of LLM agents as sandboxed WebAssembly components.
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Agent } from './agent.js'
import { Denied, Err, describeCapabilities, functionRunner } from './capability.js'
import { FumehoodError, HostError, LoadError, faultError } from './errors.js'
import { Result } from './result.js'
import { AGENT_OPTIONS, CALL_OPTIONS, HOST_OPTIONS, LOAD_OPTIONS, SERVER_OPTIONS } from './settings.js'

const native = createRequire(import.meta.url)('./fumehood.node')
const PROGRAM = fileURLToPath(new URL('./bin/fumehood', import.meta.url))

/** Calls into the native module, whose errors have a code. */
function guarded(run) {
  try {
    return run()
  } catch (error) {
    throw faultError(error.code, error.message) ?? error
  }
}

/** Renames options to the names of fumehood.toml; a misspelt one would otherwise be ignored. */
function settings(options, names) {
  const written = {}
  for (const [name, value] of Object.entries(options ?? {})) {
    if (name === 'signal') continue
    if (!Object.hasOwn(names, name)) {
      throw faultError('ERR_FUMEHOOD_SETTING', `unknown option \`${name}\`; expected one of ${Object.keys(names).join(', ')}`)
    }
    if (value !== undefined && value !== null) written[names[name]] = value
  }
  return written
}

/** Half of a surrogate pair is no text. As an escape it gets to the gate, which refuses it as it refuses other arguments. */
function wellFormed(text) {
  if (text.isWellFormed()) return text
  return text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
}

function argumentsText(args) {
  return typeof args === 'string' ? wellFormed(args) : (JSON.stringify(args ?? {}) ?? 'null')
}

/** The source of a component: a path, a reference, a file: URL, or bytes. */
function componentSource(source) {
  if (source instanceof URL) return { path: fileURLToPath(source), bytes: undefined }
  if (typeof source === 'string') return { path: source, bytes: undefined }
  if (source instanceof Uint8Array) {
    return { path: undefined, bytes: Buffer.from(source.buffer, source.byteOffset, source.byteLength) }
  }
  throw new TypeError('expected a path, a reference, a file: URL or a Uint8Array as component')
}

function finish(outcome) {
  if (typeof outcome !== 'string') return new Result(outcome)
  const { component, report, server, fault } = JSON.parse(outcome)
  if (fault) throw faultError(fault.code, fault.message)
  return component ?? report ?? server
}

/** Checks the name of a tool, of which the native module would say less. */
function toolName(name) {
  if (typeof name === 'string') return name
  throw new TypeError(`expected the name of a tool, such as 'calculator__add', got ${typeof name}`)
}

/** The operations that end once a signal aborts. A signal has one listener, however many they are. */
const stoppable = new WeakMap()

/** Calls `abort` once the signal aborts. Returns the function that takes it back. */
function onAbort(signal, abort) {
  if (!stoppable.has(signal)) {
    const aborts = new Set()
    const listener = () => aborts.forEach((abort) => abort())
    stoppable.set(signal, { aborts, listener })
    signal.addEventListener('abort', listener, { once: true })
  }
  const { aborts, listener } = stoppable.get(signal)
  aborts.add(abort)
  return () => {
    if (aborts.delete(abort) && aborts.size === 0) {
      stoppable.delete(signal)
      signal.removeEventListener('abort', listener)
    }
  }
}

/** Awaits an operation, and stops it when the signal aborts. `begin` takes the handle that stops it. */
function operate(signal, begin) {
  if (!signal) {
    const begun = guarded(() => begin(undefined))
    return begun instanceof Promise ? begun.then(finish) : finish(begun)
  }
  signal.throwIfAborted()
  const stop = new native.Stop()
  const begun = guarded(() => begin(stop))
  if (!(begun instanceof Promise)) return finish(begun)
  return new Promise((resolve, reject) => {
    const abort = () => {
      stop.stop()
      reject(signal.reason)
    }
    const forget = onAbort(signal, abort)
    begun
      .finally(forget)
      .then(finish)
      .then(resolve, reject)
  })
}

/** The number of running operations of each host that has any: a host that is collected ends what runs in it. */
const busy = new Map()

function finishedEvent(result) {
  return { type: 'finished', id: result.id, result }
}

/** A set of loaded components and the sandbox that runs them. */
export class Host {
  #native
  /** The subscribers that wait for events. */
  #waiting = new Set()

  constructor(options) {
    const { capabilities = [], ...others } = options ?? {}
    const { program = PROGRAM, ...rest } = settings(others, HOST_OPTIONS)
    const written = JSON.stringify({ program: resolve(program), ...rest })
    const described = describeCapabilities(capabilities)
    const calls = new native.FunctionCalls()
    this.#native = guarded(() => new native.NativeHost(written, described, calls, functionRunner(calls, capabilities)))
  }

  async load(source, options) {
    const { path, bytes } = componentSource(source)
    const written = JSON.stringify({ path, ...settings(options, LOAD_OPTIONS) })
    return operate(options?.signal, (stop) => this.#hold(this.#native.load(written, bytes, stop)))
  }

  unload(name) {
    return this.#native.unload(name)
  }

  tools() {
    return this.#native.tools().map((tool) => JSON.parse(tool))
  }

  tool(name) {
    const found = this.#native.tool(name)
    return found ? JSON.parse(found) : undefined
  }

  get running() {
    return this.#native.running()
  }

  async call(name, args, options) {
    const written = callOptions(options)
    return operate(options?.signal, (stop) => this.#hold(this.#native.start(toolName(name), argumentsText(args), written, stop)))
  }

  async *stream(name, args, options) {
    const written = callOptions(options)
    const signal = options?.signal
    signal?.throwIfAborted()
    const [events, stop] = [new native.Events(), new native.Stop()]
    let wake = () => {}
    let [isDone, outcome, failure] = [false, undefined, undefined]
    const notify = () => wake()
    const end = (done, failed) => {
      ;[isDone, outcome, failure] = [true, done, failed]
      wake()
    }
    const abort = () => {
      stop.stop()
      end(undefined, signal.reason)
    }
    const call = [toolName(name), argumentsText(args), written]
    const begun = guarded(() => this.#hold(this.#native.startObserved(call, events, notify, stop)))
    const forget = signal && onAbort(signal, abort)
    begun.then(
      (settled) => isDone || end(settled),
      (error) => isDone || end(undefined, error),
    )
    try {
      for (;;) {
        // Looked at first: no event comes after the end.
        const wasDone = isDone
        const changed = new Promise((resolve) => (wake = resolve))
        const waiting = events.drain()
        for (const event of waiting) yield JSON.parse(event)
        if (wasDone) break
        if (waiting.length === 0 && !isDone) await changed
      }
      if (failure !== undefined) throw failure
      yield finish(outcome)
    } finally {
      forget?.()
      stop.stop()
    }
  }

  async addServer(name, options) {
    const written = JSON.stringify(settings(options, SERVER_OPTIONS))
    return operate(options?.signal, (stop) => this.#hold(this.#native.addServer(name, written, stop)))
  }

  async removeServer(name) {
    return operate(undefined, () => this.#hold(this.#native.removeServer(name)))
  }

  agent(options) {
    const { model, approve, state, ...rest } = options ?? {}
    const written = settings(rest, AGENT_OPTIONS)
    if (state !== undefined) written.state = JSON.stringify(state)
    const native = guarded(() => this.#native.agent(JSON.stringify(written), approve !== undefined))
    return new Agent(native, model, approve, (signal, begin) => operate(signal, (stop) => this.#hold(begin(stop))))
  }

  subscribe() {
    const subscriber = { wake() {} }
    // Begun here and not when the first event is awaited: those before would be missed.
    const subscription = this.#native.subscribe(() => subscriber.wake())
    return this.#observe(subscription, subscriber)
  }

  async verifyLog() {
    return operate(undefined, () => this.#hold(this.#native.verifyLog()))
  }

  async shutdown(grace = 1000) {
    await operate(undefined, () => this.#native.shutdown(grace))
    this.#wake()
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.shutdown()
  }

  /** Keeps this host until an operation of it has ended, whose events are then there. */
  #hold(operation) {
    if (!(operation instanceof Promise)) {
      this.#wake()
      return operation
    }
    busy.set(this, (busy.get(this) ?? 0) + 1)
    return operation.finally(() => {
      const left = busy.get(this) - 1
      if (left > 0) busy.set(this, left)
      else busy.delete(this)
      this.#wake()
    })
  }

  /** Lets all who wait look for events: nothing else may keep the process alive until the native module has woken them. */
  #wake() {
    for (const subscriber of this.#waiting) subscriber.wake()
  }

  /** Yields the events of a subscription. It keeps this host: one that is collected ends its subscriptions without a word. */
  async *#observe(subscription, subscriber) {
    try {
      for (;;) {
        const changed = new Promise((resolve) => (subscriber.wake = resolve))
        // Looked at first: no event comes after the end.
        const hasEnded = subscription.hasEnded()
        const events = subscription.take()
        for (const event of events) {
          yield typeof event === 'string' ? JSON.parse(event) : finishedEvent(new Result(event))
        }
        if (events.length > 0) continue
        if (hasEnded) return
        this.#waiting.add(subscriber)
        await changed
        this.#waiting.delete(subscriber)
      }
    } finally {
      subscription.close()
    }
  }
}

/** Writes the options of a call; undefined if there are none. The state is any JSON, so that it travels as text. */
function callOptions(options) {
  if (options === undefined || options === null) return undefined
  const { state, ...rest } = options
  const written = settings(rest, CALL_OPTIONS)
  if (state !== undefined) written.state = JSON.stringify(state)
  return Object.keys(written).length === 0 ? undefined : JSON.stringify(written)
}

export { Agent, Denied, Err, FumehoodError, HostError, LoadError, Result }
