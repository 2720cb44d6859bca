/// <reference lib="esnext.disposable" />

/** A number, or a number with a unit, such as `"64MiB"` or `"500M"`. */
export type Amount = string | number

/** Limits of one call, with the names of `fumehood.toml`. A limit that is left out has its default. */
export interface Limits {
  /** Wall time, such as `"2s"`. The default is 10s. */
  deadline?: string
  /** Fuel, about one unit per instruction, such as `"500M"`. The default is 10G. */
  fuel?: Amount
  /** Memory, such as `"128MiB"`. The default is 64MiB. */
  memory?: Amount
  /** Size of a result. The default is 1MiB. */
  output?: Amount
  /** Size of log lines and progress, and of stdout and stderr. The default is 256KiB. */
  log?: Amount
  /** Maximum size of a single string in the arguments. The default is 10KiB. */
  string?: Amount
}

/** Limits on the requests of one call. A limit that is left out has its default. */
export interface HttpLimits {
  requests?: Amount
  bytes_out?: Amount
  bytes_in?: Amount
  in_flight?: Amount
  connect?: string
  tls?: string
  first_byte?: string
  between_bytes?: string
}

/** A folder that may be changed, with quotas for added bytes and names. */
export interface WriteFolder {
  folder: string
  guest: string
  bytes?: Amount
  entries?: Amount
}

/** A secret that the host adds to requests. The tool never sees it. */
export interface Secret {
  name: string
  from: { env: string } | { file: string } | { keyring: string }
  for: string
  header?: string
  query?: string
  value?: string
}

/** Powers of a component, with the names of `fumehood.toml`. Powers that are left out are not granted. */
export interface Grants {
  state?: boolean
  /** Folders that it may read, as `"HOST:GUEST"`. */
  read?: string[]
  /** Folders that it may read and change. */
  write?: (string | WriteFolder)[]
  /** Size of an empty folder for each call, `/scratch`. */
  scratch?: Amount
  /** Requests, as `"METHOD URL"`, such as `"GET https://api.example.com/v1/**"`. */
  http?: string[]
  http_limits?: HttpLimits
  private_addresses?: string[]
  env?: Record<string, string>
  args?: string[]
  secrets?: Secret[]
  clock?: string
  random_seed?: number
  /** Size of a private store of keys and values. */
  key_value?: Amount
  /** Show its pages (MCP Apps) to clients. */
  apps?: boolean
  /** Origins that its pages may reach, such as `"https://api.example.com"`. */
  app_origins?: string[]
}

/** Components of registries, with the names of `[registry]` in `fumehood.toml`. */
export interface Registry {
  /** The folder that components are kept in. */
  store: string
  /** Use only what is in the store. */
  offline?: boolean
  /** Names that may be used, such as `"ghcr.io/acme/**"`. The default is all. */
  allow?: string[]
  /** The rule for signatures. The default is `required`. */
  signatures?: 'required' | 'warn' | 'off'
  /** Public keys of publishers: PEM, its base64 alone, or a file with it. */
  trusted_keys?: (string | { file: string })[]
  trusted?: Record<string, (string | { file: string })[]>
  max_bytes?: Amount
  min_age?: string
  revoked?: string[]
  mirrors?: Record<string, string[]>
  proxy?: string
  plain_http?: string[]
}

export interface HostOptions {
  /** Limits of calls without separate limits. */
  limits?: Limits
  /**
   * Where calls run: in this process, which is the default, in worker processes in a kernel jail, or only in worker processes with a
   * complete jail.
   */
  isolation?: 'in_process' | 'process' | 'process_required'
  /** A folder for compiled code. Without one it is in memory. */
  cache?: string
  /** A file for the keys and values of tools. Without one they are in memory. */
  keyValueStore?: string
  /** Maximum number of running calls; further calls wait. */
  concurrency?: number
  /** Maximum number of waiting calls; further calls are refused. */
  queue?: number
  /** Maximum number of running HTTP requests of all calls together. */
  httpInFlight?: number
  /** The largest memory limit that a call may have. */
  memoryCeiling?: Amount
  /** Components of registries. Without these settings none can be loaded. */
  registry?: Registry
  /**
   * The file with the approvals that `fumehood approve` writes. With one, only approved tools can be
   * called.
   */
  lock?: string
  /** The program `fumehood` that compiles components and runs workers. The default is the program of this package. */
  program?: string
}

export interface LoadOptions {
  /** The name of the component; the default is the name of the file. Bytes need one. */
  name?: string
  /** Its powers. The default is none. */
  grants?: Grants
  /** Limits of its calls, in place of the host's. */
  limits?: Limits
  /** Refuse it if it imports a power that it is not granted. */
  strictImports?: boolean
  /** Compile it even if that takes many seconds. */
  allowSlowCompile?: boolean
  /** Run its calls in a worker process, whatever the host's `isolation`. */
  isolated?: boolean
  /** Stops loading. */
  signal?: AbortSignal
}

export interface CallOptions {
  /** Limits of this call, in place of the tool's. */
  limits?: Limits
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

/** The outcome of one call: parts of a result, or an error. */
export class Result {
  private constructor()
  readonly ok: boolean
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
  /** Returns the record that `fumehood call --json` prints. */
  toJSON(): object
}

/** An event of a running call. */
export type CallEvent =
  | { type: 'progress'; fraction?: number; message?: string; partial?: object[] }
  | { type: 'log'; level: string; message: string }
  | { type: 'request'; method: string; host: string; status?: number; reason?: string; bytes_out: number; bytes_in: number }

/** The host failed, not a tool. */
export class HostError extends Error {
  readonly code: 'ERR_FUMEHOOD_HOST'
}

/** A component cannot be loaded. */
export class LoadError extends Error {
  readonly code: 'ERR_FUMEHOOD_LOAD'
}

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
   *
   * @throws {LoadError} if it cannot be loaded
   */
  load(source: string | URL | Uint8Array, options?: LoadOptions): Promise<Component>

  /** Unloads a component, and returns whether it was loaded. Running calls continue to their end. */
  unload(name: string): boolean

  /** Returns all tools, sorted by their names. */
  tools(): Tool[]

  /** Returns the tool with this name, `component__tool`. */
  tool(name: string): Tool | undefined

  /** The number of calls that are running guest code right now. */
  readonly running: number

  /**
   * Calls a tool. Every outcome of the tool is a value.
   *
   * @param args an object, or JSON text as a model wrote it
   */
  call(name: string, args?: object | string, options?: CallOptions): Promise<Result>

  /**
   * Calls a tool, and yields its progress, log lines and requests, and at last its result. Leaving the loop before its end stops the
   * guest.
   */
  stream(name: string, args?: object | string, options?: CallOptions): AsyncGenerator<CallEvent | Result, void, undefined>

  /** Accepts no more calls, and stops those that still run after `grace` milliseconds, 1000 unless told. */
  shutdown(grace?: number): Promise<void>

  [Symbol.asyncDispose](): Promise<void>
}
