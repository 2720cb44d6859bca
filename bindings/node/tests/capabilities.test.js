// Capabilities whose functions are written in JavaScript, at the boundary: what a component gets, and what a program gets.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Denied, Err, Host, HostError, LoadError } from 'fumehood'
import { temporaryFolder, until } from './shared.js'

const COMPONENT = 'orders.wasm'
const readWit = (name) => readFileSync(join(process.env.FUMEHOOD_ROOT, 'tests', 'capability', `${name}.wit`), 'utf8')
const WIT = readWit('orders').split('world orders')[0]
const cache = temporaryFolder()
const ISOLATIONS = ['in_process', 'process']

const ORDER = {
  id: 2n ** 64n - 1n,
  title: 'milk',
  note: undefined,
  status: 'sent',
  extras: ['express'],
  cells: [
    { tag: 'null' },
    { tag: 'integer', val: -(2n ** 63n) },
    { tag: 'text', val: 'é' },
    { tag: 'blob', val: new Uint8Array([0, 255]) },
  ],
  size: [7, 0.5],
}
const ARGUMENTS = {
  id: String(2n ** 64n - 1n),
  title: 'milk',
  status: 'sent',
  extras: ['express'],
  cells: [
    { tag: 'null' },
    { tag: 'integer', val: String(-(2n ** 63n)) },
    { tag: 'text', val: 'é' },
    { tag: 'blob', val: [0, 255] },
  ],
  size: [7, 0.5],
}

/** Returns a host with the component `orders`, whose functions a test replaces. */
function hostOf(functions, isolation = 'in_process') {
  const all = {
    find: () => ORDER,
    save: (_context, order) => order,
    nest: (_context, ...values) => values,
    count: (_context, number) => number,
    wait: () => {},
    ...functions,
  }
  const orders = { name: 'orders', description: 'read orders of the service', wit: WIT, functions: all }
  return new Host({ cache, isolation, capabilities: [orders], concurrency: 4 })
}

async function loaded(functions, isolation, grant = null) {
  const host = hostOf(functions, isolation)
  await host.load(COMPONENT, { capabilities: { orders: grant }, limits: { deadline: '30s' } })
  return host
}

for (const isolation of ISOLATIONS) {
  test(`values of every type arrive and return: ${isolation}`, async () => {
    const seen = []
    const host = await loaded({ save: (_context, order) => (seen.push(order), order) }, isolation)
    const result = await host.call('orders__save', { order: ARGUMENTS })
    assert.equal(result.error, undefined)
    assert.deepEqual(seen, [ORDER])
    assert.deepEqual(result.structured, ARGUMENTS)
    const args = { results: [{ ok: 1 }, { err: 'no' }], twice: { some: null }, letter: 'é' }
    const nested = await host.call('orders__nest', args)
    assert.deepEqual(nested.structured, [[{ ok: 1 }, { err: 'no' }], { some: null }, 'é'])
    assert.deepEqual(host.tool('orders__save').powers, ['read orders of the service'])
  })

  test(`the context tells of the call and its grant: ${isolation}`, async () => {
    const seen = []
    const count = async (context, number) => {
      const { component, tool, callId, actor, grant, signal, timeLeft } = context
      seen.push([component, tool, callId, actor, grant, signal.aborted])
      assert(timeLeft > 0 && timeLeft <= 30_000)
      return number + 1
    }
    const host = await loaded({ count }, isolation, { tables: ['orders'], rows: 1.5 })
    const result = await host.call('orders__count', { number: 1 }, { id: '7', actor: 'ann' })
    assert.equal(result.structured, 2)
    assert.deepEqual(seen, [['orders', 'count', '7', 'ann', { tables: ['orders'], rows: 1.5 }, false]])
  })

  test(`refusals and errs are those of the tool: ${isolation}`, async () => {
    const find = async (context, id) => {
      if (id === 1n) throw new Err({ tag: 'missing' })
      context.refuse(`reading the order ${id}`, 'its grant does not cover it')
      throw new Err({ tag: 'denied', val: 'not granted' })
    }
    const count = () => {
      throw new Denied('counting was not granted')
    }
    const host = await loaded({ find, count }, isolation)
    const missing = await host.call('orders__find', { id: 1 })
    assert.equal(missing.error.kind, 'tool_failed')
    assert.match(missing.error.message, /missing/)
    const refused = await host.call('orders__find', { id: 2 })
    assert.equal(refused.error.kind, 'denied')
    assert.match(refused.modelText, /its grant does not cover it/)
    const denied = await host.call('orders__count', { number: 1 })
    assert.equal(denied.error.kind, 'denied')
    assert.match(denied.modelText, /counting was not granted/)
  })

  test(`without a grant the component is not loaded: ${isolation}`, async () => {
    const host = hostOf({}, isolation)
    await assert.rejects(host.load(COMPONENT), (error) => error instanceof LoadError && /capability `orders`/.test(error.message))
    const unknown = { name: 'TypeError', message: /`capabilities`: unknown capability `order`; expected orders/ }
    await assert.rejects(host.load(COMPONENT, { capabilities: { order: null } }), unknown)
    const large = { capabilities: { orders: 'x'.repeat(70_000) } }
    await assert.rejects(host.load(COMPONENT, large), { message: /the maximum is 65536/ })
    assert.deepEqual(host.tools(), [])
  })

  test(`the signal aborts at the deadline and with the call: ${isolation}`, async () => {
    const signals = []
    const wait = ({ signal }) => {
      signals.push(signal)
      return new Promise(() => {})
    }
    const host = await loaded({ wait }, isolation)
    const began = Date.now()
    const late = await host.call('orders__wait', {}, { limits: { deadline: 300 } })
    assert.equal(late.error.kind, 'deadline')
    assert(Date.now() - began < 5000)
    await until(() => signals[0].aborted)
    const controller = new AbortController()
    const call = host.call('orders__wait', {}, { signal: controller.signal })
    await until(() => signals.length === 2)
    controller.abort()
    await assert.rejects(call, { name: 'AbortError' })
    await until(() => signals[1].aborted)
    assert.equal((await host.call('orders__count', { number: 1 })).structured, 1)
  })

  test(`a component that calls in a loop is stopped: ${isolation}`, async () => {
    let counted = 0
    const host = await loaded({ count: (_context, number) => (counted += number) % 1000 }, isolation)
    const began = Date.now()
    const result = await host.call('orders__count-forever', {}, { limits: { deadline: '1s' } })
    assert.equal(result.error.kind, 'deadline')
    assert(Date.now() - began < 6000 && counted > 0)
    assert.equal(typeof (await host.call('orders__count', { number: 1 })).structured, 'number')
  })
}

test('other objects of JavaScript are values too', async () => {
  const save = (_context, order) => {
    const { note: _note, ...others } = order
    return { ...others, id: 7, extras: new Set(['gift']), cells: [{ tag: 'blob', val: Buffer.from('a') }], size: [1n, -0] }
  }
  const host = await loaded({ save })
  const { structured } = await host.call('orders__save', { order: ARGUMENTS })
  assert.deepEqual([structured.id, structured.extras, structured.cells[0].val], [7, ['gift'], [97]])
})

test('an exception ends the call as a failure of the host', async () => {
  const count = () => {
    throw new RangeError('a\u001b[31m' + 'b'.repeat(5000))
  }
  const host = await loaded({ count, wait: () => Promise.reject(null), save: () => Promise.reject(Object.create(null)) })
  await assert.rejects(host.call('orders__count', { number: 1 }), (error) => {
    assert(error instanceof HostError)
    assert.match(error.message, /function `count` of the capability `orders` failed: RangeError: a/)
    return !error.message.includes('\u001b') && error.message.length < 2000
  })
  await assert.rejects(host.call('orders__wait'), { message: /`wait` .* failed: null/ })
  await assert.rejects(host.call('orders__save', { order: ARGUMENTS }), { message: /failed: it threw an object without a text/ })
})

const endless = []
endless.push(endless, endless)
for (const [functions, message] of [
  [{ count: () => '7' }, /`count` .* returned a value of another type: expected u32, got a text/],
  [{ count: () => 2 ** 32 }, /expected u32, got the number 4294967296/],
  [{ count: () => 1.5 }, /expected u32, got the number 1.5/],
  [{ count: () => true }, /expected u32, got `true`/],
  [{ count: () => Symbol.iterator }, /expected u32, got a symbol/],
  [{ count: () => endless }, /expected u32, got a list/],
  [{ count: () => {} }, /expected u32, got no value/],
  [{ count: () => Promise.reject(new Err('no')) }, /its WIT declares no `result`/],
  [{ find: () => ({ ...ORDER, id: -1n }) }, /expected u64 at `.id`, got the number -1/],
  [{ find: () => ({ ...ORDER, id: 2 ** 60 }) }, /expected u64 at `.id`/],
  [{ find: () => ({ ...ORDER, title: '\ud800' }) }, /expected string at `.title`/],
  [{ find: () => ({ id: 1 }) }, /expected a record with `id`, .* got none with `title`/],
  [{ wait: () => 1 }, /expected no value, got the number 1/],
]) {
  test(`a value of another type names the function and the type: ${message}`, async () => {
    const host = await loaded(functions)
    const [tool] = Object.keys(functions)
    const args = { count: { number: 1 }, find: { id: 1 }, wait: {} }[tool]
    await assert.rejects(host.call(`orders__${tool}`, args), (error) => error instanceof HostError && message.test(error.message))
  })
}

test('a capability that cannot be used is refused', () => {
  const functions = Object.fromEntries(['find', 'save', 'nest', 'count', 'wait'].map((name) => [name, () => {}]))
  const check = (name, wit, functions, message) => {
    const capability = { name, description: 'a', wit, functions }
    assert.throws(() => new Host({ capabilities: [capability] }), { name: 'TypeError', message })
  }
  check('Orders', WIT, functions, /invalid name of a capability `Orders`/)
  check('orders', WIT, {}, /the function `find` of `test:orders\/store@0.1.0` is missing/)
  check('orders', WIT, { ...functions, finds: () => {} }, /`finds` is not a function of its WIT; expected `find`, /)
  check('orders', WIT, { ...functions, find: 1 }, /expected a function as `find` of `orders`, got number/)
  check('orders', undefined, functions, /expected a text as `wit`/)
  check('probe', readWit('misuse').split('world')[0], {}, /has the resource `item`, which only a capability in Rust can provide/)
})

test('functions run at once', async () => {
  let waiting = 0
  const wait = async () => {
    waiting += 1
    while (waiting < 4) await sleep(1)
  }
  const host = await loaded({ wait })
  const results = await Promise.all(Array.from({ length: 4 }, () => host.call('orders__wait')))
  assert(results.every((result) => result.ok))
})
