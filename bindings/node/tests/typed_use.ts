// A program whose types are checked, and which is not run.
import { type AgentResult, type CallEvent, type Capability, type Component, type Content, Err, type Grants, FumehoodError, Host, HostError, LoadError, type Limits, Result, type Tool } from 'fumehood'
import { tools } from 'fumehood/ai'
import { tools as langchainTools } from 'fumehood/langchain'
import { server } from 'fumehood/mcp'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { generateText, type LanguageModel } from 'ai'
import { createAgent } from 'langchain'

const limits: Limits = { deadline: 2000, memory: '64MiB', fuel: 1_000_000 }
const grants: Grants = {
  read: ['./docs:/docs'],
  write: ['./out:/out', { folder: './more', guest: '/more', bytes: '1MiB' }],
  http: ['GET https://api.example.com/v1/**'],
  secrets: [{ name: 'token', from: { env: 'TOKEN' }, for: 'https://api.example.com/**', header: 'Authorization' }],
}

const database: Capability = {
  name: 'database',
  description: 'read tables',
  wit: 'package acme:database; interface tables { select: func(table: string) -> result<u32, string>; }',
  functions: {
    async select(context, table: string) {
      if (!context.grant.tables.includes(table)) {
        context.refuse(`reading ${table}`, 'it was not granted')
        throw new Err('denied')
      }
      await fetch('http://localhost/', { signal: context.signal })
      return context.timeLeft
    },
  },
}

export async function use(model: LanguageModel, chat: BaseChatModel): Promise<string> {
  await using host = new Host({ limits, isolation: 'process', cache: 'cache', concurrency: 4, capabilities: [database] })
  const component: Component = await host.load('a.wasm', { grants, limits, capabilities: { database: { tables: ['orders'] } }, strictImports: true, replace: true })
  const tool: Tool | undefined = host.tool(`${component.name}__add`)
  const result: Result = await host.call(tool?.name ?? '', { a: 1 }, { signal: AbortSignal.timeout(100), limits, id: '7', actor: 'ann', state: { d: 1 } })
  const value: unknown = result.ran ? result.json() : undefined
  if (value instanceof FumehoodError) return tool?.alias ?? ''
  if (!result.ok) return result.error?.kind ?? ''
  const parts: readonly Content[] = result.content
  for (const part of parts) if (part.type === 'blob') part.data.byteLength.toFixed()
  for await (const event of host.stream('a__b', '{}')) {
    if (event instanceof Result) return event.modelText
    const other: CallEvent = event
    if (other.type === 'progress') other.fraction?.toFixed()
  }
  const added = await host.addServer('s', { command: ['server'], env: { A: 'b' }, startTimeout: '2s', tools: ['a'] })
  if (added.tools.length === 0) await host.removeServer(added.name)
  const agent = host.agent({
    model: ({ messages }, { signal }) => ({ content: messages[0]?.content ?? String(signal.aborted), usage: { input: 1 } }),
    approve: async ({ tool }) => tool === 'a' || 'no',
    budget: { turns: 2, wall_time: 2500 },
  })
  const done: AgentResult = await agent.run('Hello.', { signal: AbortSignal.timeout(100) })
  if (done.calls[0]?.result.ok) return done.text
  // @ts-expect-error: a reply is a text or a message.
  host.agent({ model: () => 5 })
  for await (const event of host.subscribe()) {
    if (event.type === 'finished') return event.result.modelText
    if (event.type === 'lost') event.count.toFixed()
    if (event.type === 'log') event.id.concat(event.message)
  }
  await server(host).close()
  const { text } = await generateText({ model, tools: tools(host), prompt: '' })
  createAgent({ model: chat, tools: langchainTools(host) })
  try {
    // @ts-expect-error: options that are misspelt are errors.
    await host.load('a.wasm', { grant: {} })
  } catch (error) {
    if (error instanceof LoadError || error instanceof HostError) return error.code
  }
  return text
}
