// This file is written by `cargo test -p fumehood-config`.

export const HOST_OPTIONS = {
  program: 'program',
  isolation: 'isolation',
  limits: 'limits',
  cache: 'cache',
  keyValueStore: 'key_value_store',
  concurrency: 'concurrency',
  queue: 'queue',
  httpInFlight: 'http_in_flight',
  memoryCeiling: 'memory_ceiling',
  registry: 'registry',
  lock: 'lock',
  log: 'log',
  logKey: 'log_key',
}

export const LOAD_OPTIONS = {
  name: 'name',
  grants: 'grants',
  capabilities: 'capabilities',
  limits: 'limits',
  strictImports: 'strict_imports',
  allowSlowCompile: 'allow_slow_compile',
  isolated: 'isolated',
  replace: 'replace',
}

export const CALL_OPTIONS = {
  limits: 'limits',
  id: 'id',
  actor: 'actor',
}

export const AGENT_OPTIONS = {
  system: 'system',
  allow: 'allow',
  ask: 'ask',
  budget: 'budget',
  actor: 'actor',
}

export const SERVER_OPTIONS = {
  command: 'command',
  folder: 'folder',
  isolation: 'isolation',
  read: 'read',
  write: 'write',
  http: 'http',
  privateAddresses: 'private_addresses',
  env: 'env',
  secretEnv: 'secret_env',
  url: 'url',
  bearer: 'bearer',
  headers: 'headers',
  secretHeaders: 'secret_headers',
  timeout: 'timeout',
  maxTimeout: 'max_timeout',
  startTimeout: 'start_timeout',
  prefer: 'prefer',
  output: 'output',
  string: 'string',
  tools: 'tools',
  maxTools: 'max_tools',
  descriptions: 'descriptions',
}
