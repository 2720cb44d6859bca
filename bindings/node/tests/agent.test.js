// Agents: a model of the program, with tools of the host.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, Host } from 'fumehood'
import { component, hostWith, temporaryFolder, until } from './shared.js'

const call = (name, args, id = 'c') => ({ tool_calls: [{ id, name, arguments: args }] })
const ADD = call('calculator__add', { a: 3, b: 5 })

/** Returns a model that gives these replies, one after the other, and keeps the requests. */
function script(...replies) {
  const requests = []
  const model = async (request) => {
    requests.push(request)
    const reply = replies.shift()
    if (reply instanceof Error) throw reply
    return reply
  }
  return { model, requests }
}

test('a model calls tools and answers', async () => {
  const host = await hostWith('calculator')
  const first = {
    role: 'assistant',
    content: 'Let me see.',
    tool_calls: [
      { id: 'one', name: 'calculator__add', arguments: '{"a": 3, "b": 5}' },
      { id: 'two', name: 'calculator__multiply', arguments: { a: 8, b: 2 } },
    ],
    usage: { input: 100, output: 10 },
  }
  const { model, requests } = script(first, { content: 'It is 8, and 16.', usage: { input: 150, output: 7 } })
  const agent = host.agent({ model, system: 'You answer questions about sums.' })
  assert(agent instanceof Agent)
  const result = await agent.run('What is 3 + 5, and twice that?')
  assert.deepEqual([result.ok, result.status, result.reason, result.text], [true, 'answered', undefined, 'It is 8, and 16.'])
  assert.deepEqual([result.turns, result.usage.input, result.usage.output], [2, 250, 17])
  assert.deepEqual(
    result.calls.map(({ id, tool, status, result }) => [id, tool, status, result.structured]),
    [['one', 'calculator__add', 'ok', { result: 8 }], ['two', 'calculator__multiply', 'ok', { result: 16 }]],
  )
  assert.equal(result.calls[0].arguments, '{"a": 3, "b": 5}')
  const [opening, following] = requests
  assert.deepEqual(opening.messages.map(({ role }) => role), ['system', 'user'])
  const add = opening.tools.find(({ name }) => name === 'calculator__add')
  assert.deepEqual([add.parameters.required, opening.tool_choice], [['a', 'b'], 'auto'])
  const [, , asked, answered] = following.messages
  assert.deepEqual([asked.content, asked.tool_calls[0].id], ['Let me see.', 'one'])
  assert.deepEqual(answered, { role: 'tool', tool_call_id: 'one', content: '{"result":8}' })
})

test('the conversation continues', async () => {
  const host = await hostWith()
  const { model, requests } = script('Hello.', 'You said hi.')
  const agent = host.agent({ model })
  const results = await Promise.all([agent.run('Hi.'), agent.run('What did I say?')])
  assert.deepEqual(results.map(({ text }) => text), ['Hello.', 'You said hi.'])
  assert.deepEqual(requests[1].messages.map(({ content }) => content), ['Hi.', 'Hello.', 'What did I say?'])
})

test('the model reads why a call was refused', async () => {
  const host = await hostWith('calculator')
  for (const args of [{ a: '3', b: 5 }, '{']) {
    const { model, requests } = script(call('calculator__add', args), 'I cannot.')
    const { calls, text } = await host.agent({ model }).run('3 + 5?')
    const [{ status, result }] = calls
    assert.deepEqual([status, result.ran, result.error.kind, text], ['rejected_schema', false, 'invalid_arguments', 'I cannot.'])
    assert.equal(requests[1].messages.at(-1).is_error, true)
  }
})

test('only allowed tools can be called', async () => {
  const host = await hostWith('calculator')
  const { model, requests } = script(ADD, 'No.')
  const result = await host.agent({ model, allow: ['calculator__multiply'] }).run('1 + 1?')
  assert.deepEqual(requests[0].tools.map(({ name }) => name), ['calculator__multiply'])
  assert.equal(result.calls[0].status, 'rejected_allowlist')
})

test('options that are not possible are errors', async () => {
  const host = await hostWith('calculator')
  const { model } = script()
  for (const [options, message] of [
    [{ model, allow: ['calculator__ad'] }, /`allow`: unknown tool `calculator__ad`/],
    [{ model, ask: ['calculator__ad'] }, /`ask`: unknown tool/],
    [{ model, budget: { turn: 2 } }, /budget\.turn/],
    [{ model, tools: [] }, /unknown option `tools`/],
    [{}, /`model`: expected a function/],
    [{ model, approve: true }, /`approve`: expected a function/],
  ]) {
    assert.throws(() => host.agent(options), { code: 'ERR_FUMEHOOD_SETTING', name: 'TypeError', message })
  }
  await assert.rejects(host.agent({ model }).run(5), TypeError)
})

for (const [answer, status, read] of [
  [true, 'ok', '8'],
  [false, 'rejected_denied', 'denied'],
  ['not on a Sunday', 'rejected_denied', 'not on a Sunday'],
]) {
  test(`calls wait for approval: ${answer}`, async () => {
    const host = await hostWith('calculator')
    const asked = []
    const approve = (proposed) => (asked.push(proposed), answer)
    const { model, requests } = script(ADD, call('calculator__multiply', { a: 1, b: 1 }), 'Done.')
    const agent = host.agent({ model, ask: ['calculator__add'], approve, actor: 'ann' })
    const result = await agent.run('3 + 5?')
    assert.deepEqual(result.calls.map(({ status }) => status), [status, 'ok'])
    assert(requests[1].messages.at(-1).content.includes(read))
    const [{ tool, arguments: args, actor, annotations }] = asked
    assert.deepEqual([tool, args, actor, annotations.read_only], ['calculator__add', { a: 3, b: 5 }, 'ann', true])
    assert.equal(asked.length, 1)
  })
}

test('without approval calls are refused', async () => {
  const host = await hostWith('calculator')
  const unasked = await host.agent({ model: script(ADD, 'No.').model, ask: ['calculator__add'] }).run('3 + 5?')
  assert.equal(unasked.calls[0].result.error.kind, 'needs_approval')
  const every = await host.agent({ model: script(ADD, 'No.').model, approve: async () => false }).run('3 + 5?')
  assert.equal(every.calls[0].status, 'rejected_denied')
})

test('a budget ends the run', async () => {
  const host = await hostWith('calculator')
  const many = [1, 2, 3, 4, 5].map((a) => call('calculator__add', { a, b: 1 }))
  const counted = await host.agent({ model: script(...many).model, budget: { turns: 2 } }).run('Count.')
  assert.deepEqual([counted.ok, counted.status, counted.turns], [false, 'budget_exhausted', 2])
  assert.match(counted.reason, /requests to the model/)
  let stopped = false
  const model = (_, { signal }) => sleep(60_000, 'late', { signal }).finally(() => (stopped = true))
  const slow = await host.agent({ model, budget: { wall_time: 50 } }).run('Hi.')
  assert.equal(slow.status, 'budget_exhausted')
  await until(() => stopped)
})

test('errors of the functions reject the run', async () => {
  const host = await hostWith('calculator')
  const { model } = script(ADD, new RangeError('no key'), 'Hello again.')
  const agent = host.agent({ model })
  await assert.rejects(agent.run('3 + 5?'), { name: 'RangeError', message: 'no key' })
  assert.equal((await agent.run('Are you there?')).text, 'Hello again.')

  const asking = script(ADD, 'Not reached.')
  const approve = () => {
    throw new Error('the terminal is gone')
  }
  await assert.rejects(host.agent({ model: asking.model, approve }).run('3 + 5?'), /the terminal is gone/)
  assert.equal(asking.requests.length, 1)
})

test('malformed replies reject the run', async () => {
  const host = await hostWith()
  for (const [reply, message] of [
    [{ tool_call: [] }, /`reply\.tool_call`: unknown field/],
    [{ tool_calls: [{ arguments: {} }] }, /`reply\.tool_calls\[0\]`: missing field `name`/],
    [5, /expected the reply of the model/],
    [undefined, /expected the reply of the model/],
    [{ usage: 1n }, /BigInt/],
  ]) {
    await assert.rejects(host.agent({ model: () => reply }).run('Hi.'), { name: 'TypeError', message })
  }
})

test('a signal stops the guest', async () => {
  const host = await hostWith('countdown')
  const controller = new AbortController()
  const { model } = script(call('countdown__countdown', { from: 1000, step_ms: 50 }), 'Hello again.')
  const agent = host.agent({ model })
  const running = agent.run('Count.', { signal: controller.signal })
  await until(() => host.running === 1)
  controller.abort(new Error('enough'))
  await assert.rejects(running, /enough/)
  await until(() => host.running === 0)
  assert.equal((await agent.run('Are you there?')).text, 'Hello again.')
  await assert.rejects(agent.run('Hi.', { signal: controller.signal }), /enough/)
})

test('a signal stops the model', async () => {
  const host = await hostWith()
  const controller = new AbortController()
  let [begun, stopped] = [false, false]
  const model = async (_, { signal }) => {
    begun = true
    await sleep(60_000, undefined, { signal }).finally(() => (stopped = true))
  }
  const running = host.agent({ model }).run('Hi.', { signal: controller.signal })
  await until(() => begun)
  controller.abort()
  await assert.rejects(running, { name: 'AbortError' })
  await until(() => stopped)
})

test('thoughts are given back with the calls', async () => {
  const host = await hostWith('calculator')
  const block = { type: 'thinking', signature: 'abc' }
  const calls = [0, 1].map((a) => ({ id: String(a), name: 'calculator__add', arguments: { a, b: 1 } }))
  const { model, requests } = script({ thoughts: [block], tool_calls: calls }, 'Done.')
  await host.agent({ model }).run('Add.')
  const [, asked, ...answered] = requests[1].messages
  assert.deepEqual([asked.thoughts, asked.tool_calls.map(({ id }) => id)], [[block], ['0', '1']])
  assert.deepEqual(answered.map((message) => message.tool_call_id), ['0', '1'])
})

test('long names are aliases for the model', async () => {
  const host = await hostWith()
  const name = 'n'.repeat(64)
  await host.load(component('calculator'), { name })
  const { alias } = host.tool(`${name}__add`)
  const { model, requests } = script(call(alias, { a: 3, b: 5 }), '8')
  const result = await host.agent({ model }).run('3 + 5?')
  assert(requests[0].tools.every((tool) => tool.name.length <= 64))
  assert.deepEqual(result.calls.map(({ tool, status }) => [tool, status]), [[`${name}__add`, 'ok']])
})

test('runs are recorded', async () => {
  const host = new Host({ log: join(temporaryFolder(), 'events.db') })
  await host.load(component('calculator'))
  await host.agent({ model: script(ADD, '8').model }).run('3 + 5?')
  const report = await host.verifyLog()
  assert(report.ok && report.rows > 6)
})
