// The tools of a host as a server of the MCP SDK: `await server(host).connect(transport)`. Needs `@modelcontextprotocol/sdk`.
import { readFileSync } from 'node:fs'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const { version } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))

/** Returns a server of the tools that are loaded whenever a client asks. A failure of one is a result with `isError`. */
export function server(host, name = 'fumehood') {
  const server = new Server({ name, version }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: host.tools().map(definition) }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) =>
    answer(await host.call(params.name, params.arguments ?? {}, { signal })),
  )
  return server
}

function definition({ name, title, description, inputSchema, outputSchema, annotations }) {
  return {
    name,
    ...(title ? { title } : {}),
    description,
    inputSchema,
    ...(outputSchema ? { outputSchema } : {}),
    annotations: {
      readOnlyHint: annotations.read_only,
      destructiveHint: annotations.destructive,
      idempotentHint: annotations.idempotent,
      openWorldHint: annotations.open_world,
    },
  }
}

function answer(result) {
  const content = [{ type: 'text', text: result.modelText }]
  for (const part of result.toJSON().content) {
    if (part.type === 'blob' && part.mime_type.startsWith('image/')) {
      content.push({ type: 'image', data: part.data, mimeType: part.mime_type })
    }
  }
  const { structured } = result
  const isObject = typeof structured === 'object' && structured !== null && !Array.isArray(structured)
  return { content, isError: !result.ok, ...(isObject ? { structuredContent: structured } : {}) }
}
