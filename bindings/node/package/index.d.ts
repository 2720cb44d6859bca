/// <reference lib="esnext.disposable" />

import type { Agent, AgentOptions } from './agent.js'
import type { CallSettings, HostOptions as HostSettings, LoadSettings, ServerSettings } from './settings.js'

export * from './agent.js'

export type { Amount, Budget, Duration, Grants, HttpLimits, Limits, Registry, Secret, TcpLimits, WriteFolder } from './settings.js'

export interface HostOptions extends HostSettings {
  /** Interfaces of this program that components may import with a grant. */
  capabilities?: Capability[]
}

/** An interface of this program that components may import, each with a grant. */
export interface Capability {
  /** The name in grants and messages: lowercase words with hyphens. */
  name: string
  /** What a tool can do with it, as a phrase for people: `read tables of the service`. */
  description: string
  /** The WIT package with the interfaces. Resources, async functions, streams, futures and maps are not supported. */
  wit: string
  /**
   * The functions by their names in WIT; `interface.name` if two interfaces have one. Each gets the context and the arguments, and may
   * return a promise.
   */
  functions: Record<string, (context: CapabilityContext, ...args: any[]) => unknown>
}

/** The call of a tool that uses a capability. */
export interface CapabilityContext {
  /** The name of the component. */
  readonly component: string | undefined
  /** The name of the tool within its component. */
  readonly tool: string
  readonly callId: string
  /** The actor on whose behalf the call runs. */
  readonly actor: string | undefined
  /** What the component was granted, as `load` got it. */
  readonly grant: any
  /** Aborts when the tool stops: its deadline has passed, or its call was cancelled. */
  readonly signal: AbortSignal
  /** The time until the deadline of the call, in milliseconds. */
  readonly timeLeft: number
  /**
   * Records that the tool tried something that its grant does not cover. If the tool then fails, its caller gets this reason, and the
   * call has the kind `denied`.
   */
  refuse(tried: string, because: string): void
}

export interface LoadOptions extends LoadSettings {
  /** Stops loading. */
  signal?: AbortSignal
}

export interface ServerOptions extends ServerSettings {
  /** Stops starting or connecting. */
  signal?: AbortSignal
}

/** An MCP server that was added to a host. */
export interface Server {
  /** The name, which the full names of its tools begin with. */
  name: string
  /** The full names of its tools. */
  tools: string[]
  /** The tools that are left out, with the reasons. */
  ignored: string[]
}

export interface CallOptions extends CallSettings {
  /** The agent's state, a JSON value. Only a tool with the grant `state` can read it. */
  state?: unknown
  /** Stops the guest within milliseconds. The promise is rejected with the reason of the signal. */
  signal?: AbortSignal
}

/** A loaded component. */
export interface Component {
  name: string
  /** The digest of its bytes, `sha256:…`. */
  digest: string
  /** Whether its calls run in a worker process. */
  isolated: boolean
  /** The full names of its tools. */
  tools: string[]
}

/** A JSON Schema, as a tool declares it. */
export type JsonSchema = { [keyword: string]: unknown }

/** The definition of a tool. Its texts have hidden characters escaped. */
export interface Tool {
  /** The full name, `component__tool`. */
  name: string
  /** The name for models: the full name, or a similar one if not every provider accepts it. */
  alias: string
  title: string | null
  description: string
  inputSchema: JsonSchema
  outputSchema: JsonSchema | null
  /** Effects that the tool declares. */
  annotations: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; open_world?: boolean }
  /** Its powers beyond computing, one phrase for each. */
  powers: string[]
}

/** A part of a result, as the tool wrote it. */
export type Content =
  | { type: 'text'; text: string }
  | { type: 'json'; value: unknown }
  | { type: 'blob'; mime_type: string; data: Uint8Array }
  | { type: 'link'; uri: string; title?: string; mime_type?: string }

/** A failed call. */
export interface CallError {
  /** The kind, such as `invalid_arguments`, `deadline`, `denied` or `trap`. */
  kind: string
  message: string
  hint?: string
  retry_after_ms?: number
  /** The backtrace of a crashed guest, innermost frame first. */
  backtrace?: string[]
}

/** Resource usage and observations. */
export interface Metadata {
  duration_ms: number
  queue_ms: number
  deadline_ms: number
  fuel_used: number
  peak_memory: number
  bytes: number
  truncated: boolean
  [name: string]: unknown
}

/**
 * The outcome of one call: parts of a result, or an error. `structuredClone` and `postMessage` make it an object with the same members,
 * without methods.
 */
export class Result {
  private constructor()
  readonly ok: boolean
  /** Whether any code of the tool ran. A refusal of the host has the same kind as that of a tool. */
  readonly ran: boolean
  readonly id: string
  readonly tool: string
  /** The parts of the result as the tool wrote them; none if the call failed. */
  readonly content: readonly Content[]
  /** The value of the first JSON part. */
  readonly structured: unknown
  /** The first text or JSON part for a model, with hidden characters escaped. */
  readonly text: string | undefined
  /** All that a model should read: each part as text with hidden characters escaped, or the error. */
  readonly modelText: string
  readonly error: CallError | undefined
  readonly metadata: Metadata
  /**
   * Returns the value of the first JSON part, or else of the first text part, which has to be JSON.
   *
   * @throws {TypeError} if the call failed, or there is no JSON; the message says what there is
   */
  json(): unknown
  /** Returns the record that `fumehood call --json` prints. */
  toJSON(): object
}

/** The result of verifying an event log. */
export interface LogReport {
  /** Whether nothing was changed, removed or reordered. */
  ok: boolean
  /** Number of rows that were checked. */
  rows: number
  /** The last row with a valid seal: up to here, any change without the key is detected. */
  sealedUpTo: number
  /** The first problem, if any. */
  finding: string | null
}

/** An event of a running call. */
export type CallEvent =
  | { type: 'progress'; fraction?: number; message?: string; partial?: object[] }
  | { type: 'log'; level: string; message: string }
  | { type: 'request'; method: string; host: string; status?: number; reason?: string; bytes_out: number; bytes_in: number }

/** An event of any call of a host. `id` is the id of the call. */
export type HostEvent =
  | { type: 'loaded'; component: string; digest: string; tools: string[] }
  | { type: 'started'; id: string; tool: string; actor?: string }
  | (CallEvent & { id: string })
  | { type: 'finished'; id: string; result: Result }
  /** The subscriber was too slow, and missed `count` events. */
  | { type: 'lost'; count: number }

/** The base class of the errors of a host. */
export class FumehoodError extends Error {}

/** The host failed, not a tool. */
export class HostError extends FumehoodError {
  readonly code: 'ERR_FUMEHOOD_HOST'
}

/** A component cannot be loaded, or a server cannot be used. */
export class LoadError extends FumehoodError {
  readonly code: 'ERR_FUMEHOOD_LOAD'
}

/** Thrown by a function of a capability: the tool gets `payload` as the `err` of the `result` that the WIT declares. */
export class Err extends Error {
  constructor(payload?: unknown)
  readonly payload: unknown
}

/** Thrown by a function of a capability: the call of the tool ends with the kind `denied`, and this message. */
export class Denied extends Error {}

/**
 * A set of loaded components and the sandbox that runs them.
 *
 * Every call runs in a fresh WebAssembly instance, with fuel, an enforced deadline, a memory ceiling, and none of the powers that were
 * not granted. Failures of tools are values, see {@link Result}; failures of the host throw {@link HostError}, and options that are
 * misspelt or not possible a `TypeError` with the code `ERR_FUMEHOOD_SETTING`.
 */
export class Host {
  constructor(options?: HostOptions)

  /**
   * Loads a component from a file, a reference such as `oci://ghcr.io/acme/greeter:1.0`, or bytes. Its tools can be called as `name__tool`.
   * If it is loaded already, from the same bytes with the same grants and limits, it stays.
   *
   * @throws {LoadError} if it cannot be loaded, or another component has its name; what was loaded before stays
   */
  load(source: string | URL | Uint8Array, options?: LoadOptions): Promise<Component>

  /** Unloads a component, and returns whether it was loaded. Running calls continue to their end. */
  unload(name: string): boolean

  /** Returns all tools, sorted by their names. */
  tools(): Tool[]

  /** Returns the tool with this name, `component__tool`, or with this alias. */
  tool(name: string): Tool | undefined

  /** The number of calls that are running guest code right now. */
  readonly running: number

  /**
   * Calls a tool. Every outcome of the tool is a value.
   *
   * @param name the full name of the tool, or its alias
   * @param args an object, or JSON text as a model wrote it
   */
  call(name: string, args?: object | string, options?: CallOptions): Promise<Result>

  /**
   * Calls a tool, and yields its progress, log lines and requests, and at last its result. Leaving the loop before its end stops the
   * guest.
   */
  stream(name: string, args?: object | string, options?: CallOptions): AsyncGenerator<CallEvent | Result, void, undefined>

  /**
   * Starts an MCP server with a `command`, or connects to a `url`, and adds its tools as `name__tool`. They follow the server's list, and
   * end with the host. A program runs in a kernel jail.
   *
   * @throws {LoadError} if it cannot be used, its name is taken, or it is not what the host's `lock` approves
   */
  addServer(name: string, options: ServerOptions): Promise<Server>

  /** Removes an MCP server with its tools, ends its program, and returns whether it was there. */
  removeServer(name: string): Promise<boolean>

  /**
   * Creates an agent: its model gets the conversation with the tools, and its calls run in this host.
   *
   * @throws {TypeError} if a tool is unknown, or an option is misspelt
   */
  agent(options: AgentOptions): Agent

  /**
   * Subscribes to the events of all calls from now on, until the host is shut down. Calls do not wait for a slow subscriber: it loses
   * events, and gets their number. A subscription does not keep the process running.
   */
  subscribe(): AsyncGenerator<HostEvent, void, undefined>

  /** Verifies the event log: nothing was changed, removed or reordered. Without the option `log`, this is a `TypeError`. */
  verifyLog(): Promise<LogReport>

  /** Accepts no more calls, and stops those that still run after `grace` milliseconds, 1000 unless told. */
  shutdown(grace?: number): Promise<void>

  [Symbol.asyncDispose](): Promise<void>
}
