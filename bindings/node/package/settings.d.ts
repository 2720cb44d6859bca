// This file is written by `cargo test -p fumehood-config`.

/** A number, or a number with a unit, such as `"64MiB"` or `"500M"`. */
export type Amount = string | number

/** Milliseconds, or a number with a unit, such as `"2s"`. */
export type Duration = string | number

/** Limits of one call. A limit that is left out has its default. */
export interface Limits {
  /** Maximum wall time of a call, such as "2s". Default: 10s. */
  deadline?: Duration
  /** Maximum fuel of a call, about one unit per instruction, such as "500M". Default: 10G. */
  fuel?: Amount
  /** Maximum memory of a call, such as "128MiB". Default: 64MiB. */
  memory?: Amount
  /** Maximum size of a result, such as "4MiB". Default: 1MiB. */
  output?: Amount
  /** Maximum size of log lines, progress, stdout and stderr together. Default: 256KiB. */
  log?: Amount
  /** Maximum size of a single string in the arguments, such as "100KiB". If the schema of a property has a `maxLength`, that applies instead. Default: 10KiB. */
  string?: Amount
}

/** Limits on the requests of one call. A limit that is left out has its default. */
export interface HttpLimits {
  /** Maximum number of requests. */
  requests?: Amount
  /** Maximum bytes that all requests together send. */
  bytes_out?: Amount
  /** Maximum bytes that all requests together receive. */
  bytes_in?: Amount
  /** Maximum number of concurrent requests. */
  in_flight?: Amount
  /** Maximum time to look up the name and connect. Default: 10s. Times never extend the deadline of the call. */
  connect?: Duration
  /** Maximum time for the TLS handshake. Default: 10s. */
  tls?: Duration
  /** Maximum time from then until the headers of the response are complete. Default: 30s. */
  first_byte?: Duration
  /** Maximum time between two pieces of the response. Default: 30s. */
  between_bytes?: Duration
}

/** Limits on the TCP connections of one call. A limit that is left out has its default. */
export interface TcpLimits {
  /** Maximum number of connections that are opened, and of names that are looked up. Default: 8. */
  connections?: Amount
  /** Maximum bytes that all connections together send. Default: 1MiB. */
  bytes_out?: Amount
  /** Maximum bytes that all connections together receive. Default: 10MiB. */
  bytes_in?: Amount
  /** Maximum time to look up a name, and to connect. Default: 10s. */
  connect?: Duration
}

/** A folder that may be changed, with its quotas. */
export interface WriteFolder {
  /** The folder on this machine, relative to the working folder. */
  folder: string
  /** The path at which the tool sees it, such as "/out". */
  guest: string
  /** Maximum number of bytes that tools may add. */
  bytes?: Amount
  /** Maximum number of files and folders that tools may add. */
  entries?: Amount
}

/** A secret that the host adds to requests. The tool never sees it. */
export interface Secret {
  /** The name of the secret. */
  name: string
  /** The source of the value. */
  from: { env: string } | { file: string } | { keyring: string }
  /** The requests that get it, such as `https://api.example.com/**`. `http` must allow them too. */
  for: string
  /** The header that carries it, such as "Authorization". Set either `header` or `query`. */
  header?: string
  /** The query parameter that carries it. Set either `header` or `query`. */
  query?: string
  /** The text to send, where {secret} stands for the value, such as "Bearer {secret}". Default: "{secret}". */
  value?: string
}

/** Powers of a component. The default is none. */
export interface Grants {
  /** Let it read the agent's state, which the option `state` of a call sets. */
  state?: boolean
  /** Folders that it may read, as "HOST:GUEST", such as "./docs:/docs". */
  read?: string[]
  /** Folders that it may read and change, as "HOST:GUEST" or as a table with quotas. */
  write?: (string | WriteFolder)[]
  /** An empty folder for each call, /scratch, of at most this size. It is removed after the call. */
  scratch?: Amount
  /** Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**". */
  http?: string[]
  /** Limits on the number, size and time of the requests of one call. */
  http_limits?: HttpLimits
  /** TCP connections that it may open, as "HOST:PORT", such as "db.example.com:5432". */
  tcp?: string[]
  /** Limits on the number and size of the TCP connections of one call. */
  tcp_limits?: TcpLimits
  /** Private addresses that its requests and connections may reach, such as "127.0.0.1/32". */
  private_addresses?: string[]
  /** Environment variables, with their values. The host's own are never passed on. */
  env?: Record<string, string>
  /** Command line arguments. Most languages take the first as the program name. */
  args?: string[]
  /** Secrets that the host adds to its requests. */
  secrets?: Secret[]
  /** Resolution of its clocks, such as "1us". Default: 1ms. */
  clock?: Duration
  /** Makes its randomness the same in every call. Use it for replay and tests only. */
  random_seed?: number
  /** A private key-value store of at most this size. */
  key_value?: Amount
  /** Show its pages (MCP Apps: `ui://` resources and `_meta.ui` of its tools) to clients that declare the extension. Default: false. */
  apps?: boolean
  /** Origins that its pages may reach, such as "https://api.example.com". Default: none. */
  app_origins?: string[]
}

/** Budget of one session. A limit that is left out has its default. */
export interface Budget {
  /** Maximum requests to the model per message of the user. Default: 8. */
  turns?: number
  /** Maximum tool calls per message of the user, including refused calls. Default: 25. */
  calls?: number
  /** Maximum tool calls of the whole session. Default: 40. */
  calls_in_all?: Amount
  /** Maximum total time per message of the user. Default: 10m. */
  wall_time?: Duration
  /** Maximum tokens of all requests. Default: 150k. */
  tokens_in?: Amount
  /** Maximum tokens of all answers. Default: 20k. */
  tokens_out?: Amount
  /** Maximum fuel of all tools. Default: no limit. */
  fuel?: Amount
}

/** A file with a text. */
export interface TextFile {
  /** The path of the file, relative to the working folder. */
  file: string
}

/** Components of registries, with the names of `[registry]` in `fumehood.toml`. Paths are relative to the working folder. */
export interface Registry {
  /** The folder that components are kept in. */
  store: string
  /** Use only components that are in the store. */
  offline?: boolean
  /** Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default: all names. */
  allow?: string[]
  /** The rule for signatures. Default: required. */
  signatures?: 'required' | 'warn' | 'off'
  /** Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or a file with it. */
  trusted_keys?: (string | TextFile)[]
  /** The only trusted keys for names that match a pattern. */
  trusted?: Record<string, (string | TextFile)[]>
  /** Maximum size of a component. The default is 64 MiB. */
  max_bytes?: Amount
  /** Minimum age of a signature. The default is none. */
  min_age?: Duration
  /** Digests of manifests and components that are refused. */
  revoked?: string[]
  /** Mirrors of registries, tried in this order before the registry. */
  mirrors?: Record<string, string[]>
  /** The proxy for all requests. Default: none; proxy variables of the environment are ignored. */
  proxy?: string
  /** Registries, `HOST[:PORT]`, to contact without encryption. Default: registries on this machine. */
  plain_http?: string[]
}

/** Options of a host. Paths are relative to the working folder. */
export interface HostOptions {
  /** The program `fumehood` that compiles components and runs workers. The default is the program of this package. */
  program?: string
  /** Where calls run: in this process (default), in worker processes in a kernel jail, or only in worker processes with a complete jail. */
  isolation?: 'in_process' | 'process' | 'process_required'
  /** Limits of calls without separate limits. */
  limits?: Limits
  /** A folder for compiled code. Without one it is in memory. */
  cache?: string
  /** A file for the keys and values of tools. Without one they are in memory. */
  keyValueStore?: string
  /** Maximum number of running calls. Further calls wait. */
  concurrency?: number
  /** Maximum number of waiting calls. Further calls are refused. */
  queue?: number
  /** Maximum number of running HTTP requests of all calls together. */
  httpInFlight?: number
  /** The largest memory limit that a call may have. */
  memoryCeiling?: Amount
  /** Components of registries. Without these settings none can be loaded. */
  registry?: Registry
  /** The file with the approvals that `fumehood approve` writes. With one, only approved tools can be called. It is read whenever a component is loaded. */
  lock?: string
  /** A file for the event log. Every call is recorded in it before it runs. Without one nothing is recorded. */
  log?: string
  /** The file with the key that seals the event log. It is created with the log. Default: the file of the log with `.key`. */
  logKey?: string
}

/** Options of the load of one component. Paths are relative to the working folder. */
export interface LoadSettings {
  /** The name of the component. The default is the name of the file. Bytes need one. */
  name?: string
  /** Its powers. The default is none. */
  grants?: Grants
  /** The capabilities of the host that it may use, by their names, each with its grant: plain data without secrets, which an approval pins. The default is none. */
  capabilities?: Record<string, unknown>
  /** Limits of its calls, in place of the host's. */
  limits?: Limits
  /** Refuse it if it imports a power that it is not granted. */
  strictImports?: boolean
  /** Compile it even if that takes many seconds. */
  allowSlowCompile?: boolean
  /** Run its calls in a worker process, whatever the host's `isolation`. */
  isolated?: boolean
  /** Replace the component that has its name, if there is one, in one step. Running calls continue with the old one. Without it, a component of the same bytes, grants and limits stays, and any other is an error. */
  replace?: boolean
}

/** Options of one call. */
export interface CallSettings {
  /** Limits of this call, in place of the tool's. */
  limits?: Limits
  /** The id of the call in its result and in events. Default: one that the host generates. */
  id?: string
  /** The actor on whose behalf the call runs. Default: a guest. */
  actor?: string
}

/** Options of an agent. */
export interface AgentSettings {
  /** The system prompt: the role of the model, and how it should behave. Default: none. */
  system?: string
  /** The tools that the model may call. Default: all tools of the host, also those that are loaded later. */
  allow?: string[]
  /** The tools whose calls need approval by `approve`. Default: all tools if there is an `approve`, and otherwise none. */
  ask?: string[]
  /** Limits of its runs and of the whole conversation. */
  budget?: Budget
  /** The actor on whose behalf its calls run. Default: a guest. */
  actor?: string
}

/** An MCP server: either a `command` to start, or a `url`. */
export interface ServerSettings {
  /** The program and its arguments, such as ["npx", "-y", "server"]. No shell is involved. */
  command?: string[]
  /** The working folder of the program, relative to the working folder. */
  folder?: string
  /** Isolation of the program: "jail" (default), "required" to start it only in a complete jail, or "none". */
  isolation?: 'jail' | 'required' | 'none'
  /** Files and folders that the program may read, relative to the working folder. */
  read?: string[]
  /** Folders that the program may read and change, relative to the working folder. */
  write?: string[]
  /** Requests that the program may make, as "METHODS URL". The method and path of https requests cannot be seen, so that their rules allow all: "* https://api.example.com/**". */
  http?: string[]
  /** Private addresses that its requests may reach, such as "127.0.0.1/32". */
  privateAddresses?: string[]
  /** Environment variables of the program, in addition to PATH, LANG and TZ. HOME is a folder of the server, or yours without a jail. Other variables are not passed on. */
  env?: Record<string, string>
  /** Environment variables with secret values, and their sources. */
  secretEnv?: Record<string, { env: string } | { file: string } | { keyring: string }>
  /** The URL of its endpoint, such as "https://mcp.example.com/mcp". */
  url?: string
  /** The source of the bearer token. */
  bearer?: { env: string } | { file: string } | { keyring: string }
  /** Headers of requests to the server. */
  headers?: Record<string, string>
  /** Headers with secret values, and their sources. */
  secretHeaders?: Record<string, { env: string } | { file: string } | { keyring: string }>
  /** Maximum wall time of one call. Each progress report restarts it, up to `max_timeout`. Default: 60s. */
  timeout?: Duration
  /** Maximum total wall time of one call. Default: 10m. */
  maxTimeout?: Duration
  /** Maximum time to start and list its tools. Default: 10s, and 60s for installed packages and for programs such as npx and uvx that install other programs first. */
  startTimeout?: Duration
  /** The form of a result that the model reads, if the server wrote both: "text" or "structured". Default: "text". */
  prefer?: 'text' | 'structured'
  /** Maximum size of a result. Default: 1MiB. */
  output?: Amount
  /** Maximum size of a single string in the arguments. Default: 1MiB. */
  string?: Amount
  /** The tools to use, by the server's own names. Default: all. */
  tools?: string[]
  /** Maximum number of tools. Only this many are used, from the start of its list. Default: 1000. */
  maxTools?: Amount
  /** Maximum size of all descriptions together. The longest are cut to fit. Each description may have 16KiB. Default: 1MiB. */
  descriptions?: Amount
}
