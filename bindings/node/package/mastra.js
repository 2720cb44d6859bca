// The tools of a host for Mastra: `new Agent({ tools: tools(host), … })`. Needs `@mastra/core`.
import { createTool } from '@mastra/core/tools'

/** Returns the tools that are loaded now, by their aliases. A failure of one is an error to Mastra, whose text the model reads. */
export function tools(host) {
  return Object.fromEntries(host.tools().map((tool) => [tool.alias, adapt(host, tool)]))
}

function adapt(host, { alias, name, description, inputSchema }) {
  return createTool({
    id: alias,
    description: description || name,
    inputSchema: unchecked(inputSchema),
    // Otherwise the schema is rewritten for some providers, and arguments are checked against what becomes of it.
    strict: false,
    async execute(input, { abortSignal }) {
      const result = await host.call(alias, input, { signal: abortSignal })
      if (!result.ok) throw new Error(result.modelText)
      return result.structured ?? result.modelText
    },
  })
}

/** A Standard Schema (https://standardschema.dev) for the model that accepts anything: only the host judges arguments. */
function unchecked(schema) {
  const jsonSchema = { input: () => schema, output: () => schema }
  return { '~standard': { version: 1, vendor: 'fumehood', validate: (value) => ({ value }), jsonSchema } }
}
