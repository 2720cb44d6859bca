// The adapter for LangChain.js, with the library's own model for tests: it calls a tool, and repeats what the tool said.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { AIMessage, ToolMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { convertToOpenAITool } from '@langchain/core/utils/function_calling'
import { createAgent } from 'langchain'
import { tools } from 'fumehood/langchain'
import { ARGUMENTS, OUTPUTS, component, hostWith, until } from './shared.js'

/** Returns what an agent read of a call, and what it said at last. */
async function run(host, name, args, options) {
  const model = fakeModel()
    .respondWithTools([{ name, args, id: '1' }])
    .respond((messages) => new AIMessage(messages.at(-1).content))
  const agent = createAgent({ model, tools: tools(host) })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'Go.' }] }, options)
  const [read, said] = messages.slice(-2)
  assert(read instanceof ToolMessage)
  assert.equal(said.content, read.content)
  return read
}

test('an agent calls tools and reads results', async () => {
  const read = await run(await hostWith('calculator'), 'calculator__add', { a: 3, b: 5 })
  assert.deepEqual([read.status, read.content, read.artifact.structured], ['success', '{"result":8}', { result: 8 }])
})

test('a model gets the schema of the tool', async () => {
  const host = await hostWith('calculator')
  for (const tool of tools(host)) {
    const { name, description, parameters } = convertToOpenAITool(tool).function
    const { inputSchema, ...definition } = host.tool(tool.name)
    assert.deepEqual({ name, description, parameters }, { name: definition.alias, description: definition.description, parameters: inputSchema })
  }
})

test('arguments may have any names', async () => {
  const host = await hostWith()
  await host.load('echo.wasm')
  for (const args of [ARGUMENTS, { type: 'tool_call', name: 'x', args: { a: 1 }, id: '7' }]) {
    const read = await run(host, 'echo__echo', args)
    assert.deepEqual(read.artifact.structured, args)
  }
})

test('a tool can be called without a model', async () => {
  const [add, divide] = tools(await hostWith('calculator'))
  assert.equal(await add.invoke({ a: 3, b: 5 }), '{"result":8}')
  assert.match(await divide.invoke({ a: 1, b: 0 }), /^tool_failed: /)
})

test('a model reads why a call failed', async () => {
  const host = await hostWith('calculator')
  const failures = [
    ['calculator__divide', { a: 1, b: 0 }, /^tool_failed: /, true],
    ['calculator__evaluate', { expression: '1+' }, /^invalid_arguments: /, true],
    ['calculator__add', { a: 'x', b: 5 }, /^invalid_arguments: \/a: expected a number/, false],
  ]
  for (const [name, args, expected, ran] of failures) {
    const read = await run(host, name, args)
    assert.deepEqual([read.status, read.artifact.ran], ['error', ran])
    assert.match(read.content, expected)
  }
})

test('text and blobs are text for the model', async () => {
  const host = await hostWith('mcp-conformance')
  for (const [name, args] of OUTPUTS) {
    const read = await run(host, name, args)
    assert.equal(read.status, 'success', read.content)
    assert.equal(read.content, read.artifact.modelText)
  }
})

test('long names are shortened', async () => {
  const host = await hostWith()
  await host.load(component('calculator'), { name: 'n'.repeat(64) })
  const { alias } = host.tool(`${'n'.repeat(64)}__add`)
  assert.equal((await run(host, alias, { a: 3, b: 5 })).content, '{"result":8}')
})

test('the signal of a run stops the guest, and keeps no listener', async () => {
  const host = await hostWith('countdown')
  const controller = new AbortController()
  const { signal } = controller
  await run(host, 'countdown__countdown', { from: 1, step_ms: 1 }, { signal })
  const [countdown] = tools(host)
  await countdown.invoke({ from: 1, step_ms: 1 }, { signal })
  const listeners = getEventListeners(signal, 'abort').length
  await countdown.invoke({ from: 1, step_ms: 1 }, { signal })
  assert.equal(getEventListeners(signal, 'abort').length, listeners)
  const running = run(host, 'countdown__countdown', { from: 1000, step_ms: 50 }, { signal })
  await until(() => host.running === 1)
  controller.abort()
  await assert.rejects(running)
  await until(() => host.running === 0)
})
