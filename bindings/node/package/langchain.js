// The tools of a host for LangChain.js: `createAgent({ model, tools: tools(host) })`. Needs `@langchain/core`.
import { ToolMessage } from '@langchain/core/messages'
import { StructuredTool } from '@langchain/core/tools'

/** Returns the tools that are loaded now. A failure of one is a message of status "error" to the model. */
export function tools(host) {
  return host.tools().map((tool) => new HostTool(host, tool))
}

/** A tool whose arguments only the host judges. */
class HostTool extends StructuredTool {
  static lc_name() {
    return 'HostTool'
  }

  constructor(host, { alias, name, description, inputSchema }) {
    super({ responseFormat: 'content_and_artifact' })
    this.name = alias
    this.description = description || name
    this.schema = inputSchema
    this._call = async ({ args }, _runManager, config) => answer(await host.call(alias, args, { signal: config.signal }), alias, config)
  }

  /**
   * LangChain would check arguments against the schema, and take those with the members of a tool call for one. So they travel as one,
   * to the same tool with a schema that accepts anything.
   */
  async call(args, config, tags) {
    const unchecked = Object.create(this, { schema: { value: {} } })
    return super.call.call(unchecked, { args }, config, tags)
  }
}

/** Returns the content and the artifact of a message. Only a whole message has a status. */
function answer(result, name, { toolCall }) {
  if (result.ok || toolCall?.id === undefined) return [result.modelText, result]
  const failure = { status: 'error', content: result.modelText, artifact: result, tool_call_id: toolCall.id, name }
  return [new ToolMessage(failure), result]
}
