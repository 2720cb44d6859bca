// The adapter for the Vercel AI SDK, with the SDK's own model for tests: it calls a tool, and repeats what the tool said.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generateText, stepCountIs } from 'ai'
import * as mocks from 'ai/test'
import { tools } from 'fumehood/ai'
import { component, hostWith, until } from './shared.js'

const MockModel = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV3

/** A model that calls a tool with this input, and then says what came back. */
function scripted(toolName, input) {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
  return new MockModel({
    async doGenerate({ prompt, tools }) {
      assert(tools.some((tool) => tool.name === toolName && tool.inputSchema.type === 'object'))
      const last = prompt.at(-1)
      if (last.role !== 'tool') {
        const call = { type: 'tool-call', toolCallId: '1', toolName, input: JSON.stringify(input) }
        return { content: [call], finishReason: { unified: 'tool-calls' }, usage, warnings: [] }
      }
      const text = JSON.stringify(last.content[0].output)
      return { content: [{ type: 'text', text }], finishReason: { unified: 'stop' }, usage, warnings: [] }
    },
  })
}

test('a model calls tools and reads results', async () => {
  const host = await hostWith('calculator')
  const model = scripted('calculator__add', { a: 3, b: 5 })
  const { text } = await generateText({ model, tools: tools(host), stopWhen: stepCountIs(3), prompt: '3 + 5?' })
  assert.deepEqual(JSON.parse(text), { type: 'json', value: { result: 8 } })
})

test('long names are shortened', async () => {
  const host = await hostWith()
  await host.load(component('calculator'), { name: 'n'.repeat(64) })
  const { alias } = host.tool(`${'n'.repeat(64)}__add`)
  assert.equal(alias.length, 64)
  const model = scripted(alias, { a: 3, b: 5 })
  const { text } = await generateText({ model, tools: tools(host), stopWhen: stepCountIs(3), prompt: '3 + 5?' })
  assert.deepEqual(JSON.parse(text), { type: 'json', value: { result: 8 } })
})

test('arguments may have any names', async () => {
  const host = await hostWith()
  await host.load('echo.wasm')
  const input = { constructor: 1, input: 2, options: 3, self: 4, then: 5, toJSON: 6, abortSignal: 7, toolCallId: 8, messages: 9 }
  const { text } = await generateText({
    model: scripted('echo__echo', input),
    tools: tools(host),
    stopWhen: stepCountIs(3),
    prompt: 'Echo.',
  })
  assert.deepEqual(JSON.parse(text), { type: 'json', value: input })
})

test('a model reads why a call failed', async () => {
  const host = await hostWith('calculator')
  const model = scripted('calculator__divide', { a: 1, b: 0 })
  const { text } = await generateText({ model, tools: tools(host), stopWhen: stepCountIs(3), prompt: '1 / 0?' })
  const output = JSON.parse(text)
  assert.match(output.type, /^error-/)
  assert.match(JSON.stringify(output.value), /tool_failed: /)
})

test('the signal of a generation stops the guest', async () => {
  const host = await hostWith('countdown')
  const controller = new AbortController()
  const model = scripted('countdown__countdown', { from: 1000, step_ms: 50 })
  const generating = generateText({ model, tools: tools(host), abortSignal: controller.signal, prompt: 'Count.' })
  await until(() => host.running === 1)
  controller.abort()
  await Promise.allSettled([generating])
  await until(() => host.running === 0)
})
