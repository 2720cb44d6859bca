// The adapter for Mastra, with the framework's own model for tests: it calls a tool, and repeats what the tool said.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { Agent } from '@mastra/core/agent'
import { MastraLanguageModelV2Mock } from '@mastra/core/test-utils/llm-mock'
import { tools } from 'fumehood/mastra'
import { ARGUMENTS, OUTPUTS, component, hostWith, until } from './shared.js'

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }

/** Returns what a model read of a call, and the definitions of tools that it got. */
async function run(host, toolName, input, options) {
  let offered
  const model = new MastraLanguageModelV2Mock({
    async doGenerate({ prompt, tools }) {
      offered ??= tools
      const last = prompt.at(-1)
      if (last.role !== 'tool') {
        const call = { type: 'tool-call', toolCallId: '1', toolName, input: JSON.stringify(input) }
        return { content: [call], finishReason: 'tool-calls', usage, warnings: [] }
      }
      const text = JSON.stringify(last.content[0].output)
      return { content: [{ type: 'text', text }], finishReason: 'stop', usage, warnings: [] }
    },
  })
  const agent = new Agent({ id: 'a', name: 'a', instructions: 'Use tools.', model, tools: tools(host) })
  const { text } = await agent.generate('Go.', options)
  return { read: text && JSON.parse(text), offered }
}

test('an agent calls tools and reads results', async () => {
  const { read } = await run(await hostWith('calculator'), 'calculator__add', { a: 3, b: 5 })
  assert.deepEqual(read, { type: 'json', value: { result: 8 } })
})

test('a model gets the schema of the tool', async () => {
  const host = await hostWith('calculator', 'chart')
  const { offered } = await run(host, 'calculator__add', { a: 3, b: 5 })
  assert.equal(offered.length, host.tools().length)
  for (const { name, description, inputSchema } of offered) {
    const tool = host.tool(name)
    assert.deepEqual({ description, inputSchema }, { description: tool.description, inputSchema: tool.inputSchema })
  }
})

test('arguments may have any names', async () => {
  const host = await hostWith()
  await host.load('echo.wasm')
  // Mastra gives some arguments another value if they do not fit a schema: for `prompt` it takes that of `message`.
  for (const args of [ARGUMENTS, { prompt: null, message: 'x' }, { list: '[1]', none: null }]) {
    assert.deepEqual((await run(host, 'echo__echo', args)).read, { type: 'json', value: args })
  }
})

test('a model reads why a call failed', async () => {
  const host = await hostWith('calculator')
  const failures = [
    ['calculator__divide', { a: 1, b: 0 }, /^tool_failed: /],
    ['calculator__evaluate', { expression: '1+' }, /^invalid_arguments: /],
    ['calculator__add', { a: 'x', b: 5 }, /^invalid_arguments: \/a: expected a number/],
  ]
  for (const [name, args, expected] of failures) {
    const { read } = await run(host, name, args)
    assert.equal(read.type, 'error-text')
    assert.match(read.value, expected)
  }
})

test('text and blobs are text for the model', async () => {
  const host = await hostWith('mcp-conformance')
  for (const [name, args] of OUTPUTS) {
    const { read } = await run(host, name, args)
    assert.deepEqual(read, { type: 'text', value: (await host.call(name, args)).modelText })
  }
})

test('long names are shortened', async () => {
  const host = await hostWith()
  await host.load(component('calculator'), { name: 'n'.repeat(64) })
  const { alias } = host.tool(`${'n'.repeat(64)}__add`)
  assert.deepEqual((await run(host, alias, { a: 3, b: 5 })).read, { type: 'json', value: { result: 8 } })
})

test('the signal of a run stops the guest, and keeps no listener', async () => {
  const host = await hostWith('countdown')
  const controller = new AbortController()
  const { countdown__countdown: countdown } = tools(host)
  const context = { abortSignal: controller.signal }
  await countdown.execute({ from: 1, step_ms: 1 }, context)
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  const running = run(host, 'countdown__countdown', { from: 1000, step_ms: 50 }, context)
  await until(() => host.running === 1)
  controller.abort()
  await Promise.allSettled([running])
  await until(() => host.running === 0)
})
