// The tools of a host for the Vercel AI SDK: `generateText({ model, tools: tools(host), … })`. Needs `ai`.
import { dynamicTool, jsonSchema } from 'ai'

/** Returns the tools that are loaded now. A failure of one is an error to the SDK, whose text the model reads. */
export function tools(host) {
  return Object.fromEntries(host.tools().map((tool) => [tool.alias, adapt(host, tool)]))
}

function adapt(host, { name, description, inputSchema }) {
  return dynamicTool({
    description: description || name,
    inputSchema: jsonSchema(inputSchema),
    async execute(input, { abortSignal }) {
      const result = await host.call(name, input, { signal: abortSignal })
      if (!result.ok) throw new Error(result.modelText)
      return result.structured ?? result.modelText
    },
  })
}
