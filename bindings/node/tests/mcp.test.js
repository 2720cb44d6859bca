// The adapter for the MCP SDK, with its own client.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { server } from 'fumehood/mcp'
import { hostWith } from './shared.js'

test('clients list and call tools', async () => {
  const host = await hostWith('calculator')
  const [here, there] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'test', version: '1' })
  await Promise.all([server(host).connect(there), client.connect(here)])
  const { tools } = await client.listTools()
  const add = tools.find((tool) => tool.name === 'calculator__add')
  assert.deepEqual([add.annotations.readOnlyHint, add.inputSchema.required], [true, ['a', 'b']])
  const done = await client.callTool({ name: 'calculator__add', arguments: { a: 3, b: 5 } })
  assert.deepEqual([done.isError, done.structuredContent], [false, { result: 8 }])
  const refused = await client.callTool({ name: 'calculator__divide', arguments: { a: 1, b: 0 } })
  assert.equal(refused.isError, true)
  assert.match(refused.content[0].text, /tool_failed/)
  await client.close()
})
