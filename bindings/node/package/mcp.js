// The tools of a host as a server of the MCP SDK: `await server(host).connect(transport)`. Needs `@modelcontextprotocol/sdk`.
import { readFileSync } from 'node:fs'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { Result } from './result.js'

const { version } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))

/**
 * Returns a server of the tools that are loaded whenever a client asks. A failure of one is a result with `isError`. Clients that ask for
 * the progress of a call get it.
 */
export function server(host, name = 'fumehood') {
  const server = new Server({ name, version }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: host.tools().map(definition) }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, request) => {
    const call = [params.name, params.arguments ?? {}, { signal: request.signal }]
    const token = params._meta?.progressToken
    return answer(token === undefined ? await host.call(...call) : await reportProgress(host.stream(...call), token, request))
  })
  return server
}

/** Sends the progress of a call, and returns its result. The protocol wants a number that grows with each report. */
async function reportProgress(events, progressToken, request) {
  let progress = -1
  let total
  for await (const event of events) {
    if (event instanceof Result) return event
    if (event.type !== 'progress') continue
    const { fraction, message } = event
    if (fraction !== undefined && fraction > progress) [progress, total] = [fraction, 1]
    else if (message === undefined) continue
    else progress += total === undefined ? 1 : Number.EPSILON
    await request.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total, message } })
  }
}

function definition({ alias, title, description, inputSchema, outputSchema, annotations }) {
  return {
    name: alias,
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
