import type { Result } from './index.js'
import type { AgentSettings } from './settings.js'

/** A call in a message of the assistant. */
export interface ToolCall {
  id: string
  name: string
  /** JSON text, as the model wrote it. */
  arguments: string
}

/** A message of a conversation. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  /** The calls that a message of the assistant requests. */
  tool_calls?: ToolCall[]
  /** The call whose result a message of a tool is. */
  tool_call_id?: string
  /** Whether that call failed. */
  is_error?: boolean
  /** What the reply with these calls had as `thoughts`. */
  thoughts?: unknown[]
}

/** A request to a model. */
export interface ModelRequest {
  /** The conversation, oldest first. */
  messages: Message[]
  /** The tools that the model may call, each with the JSON Schema of its arguments. */
  tools: { name: string; description: string; parameters: { [keyword: string]: unknown } }[]
  /** Whether the model may, must or must not call tools, or the name of the tool that it must call. */
  tool_choice: 'auto' | 'required' | 'none' | { name: string }
  /** The tokens of answers that are left of the budget. */
  max_tokens: number | null
}

/** Tokens of a request and its reply. */
export interface Usage {
  input?: number
  output?: number
  cache_read?: number
  cache_creation?: number
}

/** A reply of a model: a text, calls, or both. */
export interface ModelReply {
  role?: 'assistant'
  content?: string | null
  /** The calls that the model requests. Their arguments are JSON text as the model wrote it, or the value. */
  tool_calls?: { id?: string; name: string; arguments: string | object }[] | null
  usage?: Usage | null
  /** Why the model stopped. Calls of a reply that was cut are not made. Default: `'done'`. */
  stop?: 'done' | 'length' | 'filtered' | 'refused' | 'paused' | 'failed'
  /** JSON values that the provider wants back with the calls, such as blocks of reasoning. */
  thoughts?: unknown[]
}

/** A call that needs approval. */
export interface ProposedCall {
  tool: string
  /** The arguments that the tool would get. */
  arguments: unknown
  /** What the tool says of its effects. */
  annotations: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; open_world?: boolean }
  actor: string | null
  question: string
}

/** The context of a function of the program: its signal aborts when the answer is not needed any more. */
export interface QuestionContext {
  signal: AbortSignal
}

export interface AgentOptions extends AgentSettings {
  /** The model: returns the reply to a request. */
  model: (request: ModelRequest, context: QuestionContext) => string | ModelReply | Promise<string | ModelReply>
  /** Returns true, false, or the reason for a denial. Without it, calls that need approval are refused. */
  approve?: (call: ProposedCall, context: QuestionContext) => boolean | string | Promise<boolean | string>
  /** The agent's state, a JSON value. Only a tool with the grant `state` can read it. */
  state?: unknown
}

/** A call that a model requested. */
export interface AgentCall {
  /** The id that the model gave the call. */
  id: string
  /** The full name of the tool, or the name that the model wrote if there is no such tool. */
  tool: string
  /** The arguments as the model wrote them. */
  arguments: string
  /** The status, such as `ok`, `rejected_schema` or `rejected_denied`. */
  status: string
  /** The result, as the model may see it. */
  result: Result
}

/** The result of one run. */
export interface AgentResult {
  /** Whether the model answered. */
  ok: boolean
  /** The answer, or the last text of the model; empty if there is none. */
  text: string
  /** The way the run ended, such as `answered` or `budget_exhausted`. */
  status: string
  /** The reason why there is no answer. */
  reason: string | undefined
  /** The number of requests to the model. */
  turns: number
  /** The tokens of these requests. */
  usage: Required<Usage>
  /** The calls that the model requested, in their order, refused ones included. */
  calls: AgentCall[]
}

/** A conversation of a model with the tools of a host. */
export class Agent {
  private constructor()

  /**
   * Runs one message to its end. The next message continues the conversation. A run that begins while another one is under way waits for
   * its end. If the model or `approve` throws, the run is stopped, and the promise is rejected with that error.
   *
   * @param options.signal stops the guests and the functions that are running; the promise is rejected with its reason
   */
  run(message: string, options?: { signal?: AbortSignal }): Promise<AgentResult>
}
