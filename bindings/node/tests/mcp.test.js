// The adapter for the MCP SDK, with its own client.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { server } from 'fumehood/mcp'
import { component, hostWith } from './shared.js'

/** Returns a client of the tools of a host. */
async function connect(host) {
  const [here, there] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'test', version: '1' })
  await Promise.all([server(host).connect(there), client.connect(here)])
  return client
}

test('clients list and call tools', async () => {
  const client = await connect(await hostWith('calculator'))
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

test('clients get the progress that they ask for', async () => {
  const client = await connect(await hostWith('countdown'))
  const reports = []
  const call = { name: 'countdown__countdown', arguments: { from: 3, step_ms: 1 } }
  const done = await client.callTool(call, undefined, { onprogress: (report) => reports.push(report) })
  assert.equal(done.structuredContent.from, 3)
  assert.deepEqual(reports.map(({ total, message }) => [total, message]), [[1, '1 of 3'], [1, '2 of 3'], [1, '3 of 3']])
  assert(reports[0].progress < reports[1].progress && reports[1].progress < reports[2].progress)
  await client.close()
})

test('long names are shortened', async () => {
  const host = await hostWith()
  await host.load(component('calculator'), { name: 'n'.repeat(64) })
  const client = await connect(host)
  const { tools } = await client.listTools()
  assert(tools.every(({ name }) => name.length === 64))
  const full = `${'n'.repeat(64)}__add`
  for (const name of [host.tool(full).alias, full]) {
    assert.deepEqual((await client.callTool({ name, arguments: { a: 3, b: 5 } })).structuredContent, { result: 8 })
  }
  await client.close()
})
