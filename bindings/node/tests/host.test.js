// Loading, calls, cancellation, events and faults of a host.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { MessageChannel, Worker } from 'node:worker_threads'
import { FumehoodError, Host, HostError, LoadError, Result } from 'fumehood'
import { SPIN_COMPONENT, component, hostWith, temporaryFolder, until } from './shared.js'

const run = promisify(execFile)
const FOREVER = { from: 1000, step_ms: 50 }

test('calls return values', async () => {
  const host = await hostWith('calculator')
  // The first call runs elsewhere, and the others on this thread.
  for (const args of [{ a: 3, b: 5 }, '{"a": 3, "b": 5}', { a: 3, b: 5 }]) {
    const result = await host.call('calculator__add', args)
    assert(result instanceof Result)
    assert.deepEqual([result.ok, result.error, result.structured], [true, undefined, { result: 8 }])
    assert.deepEqual(result.content, [{ type: 'json', value: { result: 8 } }])
    assert.equal(result.text, '{"result":8}')
    assert.equal(result.modelText, '{"result":8}')
    assert.equal(result.tool, 'calculator__add')
    assert(result.metadata.fuel_used > 0 && result.id.startsWith('call-'))
    assert.equal(JSON.parse(JSON.stringify(result)).status, 'ok')
  }
})

for (const [name, args, kind] of [
  ['calculator__add', { a: '3', b: 5 }, 'invalid_arguments'],
  ['calculator__add', { a: 3 }, 'invalid_arguments'],
  ['calculator__add', { a: NaN, b: 1 }, 'invalid_arguments'],
  ['calculator__add', { a: '\ud800', b: 1 }, 'invalid_arguments'],
  ['calculator__add', '{"a": 3, "b": 5', 'invalid_arguments'],
  ['calculator__add', '{"a": "\ud800"}', 'invalid_arguments'],
  ['calculator__divide', { a: 1, b: 0 }, 'tool_failed'],
  ['calculator__nothing', {}, 'unknown_tool'],
  ['nothing__add', undefined, 'unknown_tool'],
]) {
  test(`failures of tools are values: ${name} with ${JSON.stringify(args)}`, async () => {
    const host = await hostWith('calculator')
    for (let i = 0; i < 2; i++) {
      const result = await host.call(name, args)
      assert.equal(result.error.kind, kind)
      assert.deepEqual([result.ok, result.content, result.structured], [false, [], undefined])
      assert(result.error.message && result.modelText.startsWith(`${kind}: `))
    }
  })
}

test('subscribers get the events of all calls', async () => {
  const host = await hostWith('countdown')
  const collect = async (events) => {
    const collected = []
    for await (const event of events) collected.push(event)
    return collected
  }
  const [early, other] = [host.subscribe(), collect(host.subscribe())]
  await host.load(component('calculator'))
  await Promise.all([
    host.call('countdown__countdown', { from: 2, step_ms: 1 }, { id: 'slow', actor: 'ann' }),
    host.call('calculator__add', { a: 1 }, { id: 'refused' }),
  ])
  await host.shutdown()
  const events = await collect(early)
  assert.equal(JSON.stringify(await other), JSON.stringify(events))
  assert.deepEqual([events[0].type, events[0].component], ['loaded', 'calculator'])
  const started = events.filter((event) => event.type === 'started')
  assert.deepEqual(started, [{ type: 'started', id: 'slow', tool: 'countdown__countdown', actor: 'ann' }])
  assert(events.some((event) => event.type === 'progress' && event.id === 'slow' && event.fraction === 1))
  const finished = events.filter((event) => event.type === 'finished')
  assert.deepEqual(Object.fromEntries(finished.map(({ id, result }) => [id, result.ok])), { slow: true, refused: false })
})

test('slow subscribers lose events and learn how many', async () => {
  const host = await hostWith()
  const events = host.subscribe()
  for (let i = 0; i < 1000; i++) await host.call('unknown__tool')
  let event = (await events.next()).value
  while (event.type !== 'lost') event = (await events.next()).value
  assert(event.count > 600, `${event.count}`)
  assert.equal((await events.next()).value.type, 'finished')
  await events.return()
})

test('a subscription does not keep the process running', async () => {
  const program = "import { Host } from 'fumehood'; const host = new Host(); void host.subscribe().next(); console.log('end')"
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 30_000 })
  assert.equal(stdout, 'end\n')
})

test('waiting subscribers get all events of what was awaited, even if nothing else keeps the process running', async () => {
  const program = `
    import { Host } from 'fumehood'
    const host = new Host()
    void (async () => {
      for await (const event of host.subscribe()) console.log(event.type)
    })()
    await null
    await host.call('unknown__tool')
    await host.load(${JSON.stringify(component('countdown'))})
    await host.call('countdown__countdown', { from: 1, step_ms: 20 })`
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 30_000 })
  const seen = stdout.trim().split('\n').filter((type) => type !== 'progress')
  assert.deepEqual(seen, ['finished', 'loaded', 'started', 'finished'])
})

test('waiting subscribers get the end of the events', async () => {
  // With nothing else to do, the process lives until the end has come, whether the wait began before the shutdown or after it.
  const program = `
    import { Host } from 'fumehood'
    const host = new Host()
    const [early, late] = [host.subscribe(), host.subscribe()]
    const waiting = early.next()
    await host.shutdown()
    console.log((await waiting).done, (await late.next()).done)`
  for (let i = 0; i < 5; i++) {
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 30_000 })
    assert.equal(stdout, 'true true\n')
  }
})

test('tools have schemas', async () => {
  const host = await hostWith('calculator')
  const add = host.tool('calculator__add')
  assert.equal(add.description, 'Adds two numbers: a + b.')
  assert.deepEqual([add.inputSchema.required, add.inputSchema.type], [['a', 'b'], 'object'])
  assert.equal(add.annotations.read_only, true)
  assert.deepEqual(add.powers, [])
  assert(add.outputSchema)
  assert.equal(host.tool('calculator__nothing'), undefined)
  assert.deepEqual(
    host.tools().map((tool) => tool.name),
    host.tools().map((tool) => tool.name).sort(),
  )
})

test('components are loaded from a path, a URL and bytes', async () => {
  const host = await hostWith()
  const file = component('calculator')
  const loaded = await host.load(file)
  assert.equal(loaded.name, 'calculator')
  assert(loaded.tools.includes('calculator__add') && !loaded.isolated && loaded.digest.startsWith('sha256:'))
  const other = await host.load(new Uint8Array(readFileSync(file)), { name: 'other' })
  assert.equal(other.digest, loaded.digest)
  await host.load(pathToFileURL(file), { name: 'third' })
  assert.deepEqual([host.unload('other'), host.unload('other')], [true, false])
  for (const [source, message] of [
    [component('nothing'), /nothing\.wasm: No such file/],
    [component('.').slice(0, -6), /not a regular file/],
    [component('digests').replace('.wasm', '.toml'), /WebAssembly/],
  ]) {
    await assert.rejects(host.load(source), (error) => {
      assert(error instanceof LoadError && error.code === 'ERR_FUMEHOOD_LOAD')
      assert.match(error.message, message)
      return true
    })
  }
  await assert.rejects(host.load(Buffer.from('\0asm'), { name: 'bad' }), LoadError)
  await assert.rejects(host.load(Buffer.from('\0asm')), { code: 'ERR_FUMEHOOD_SETTING', message: /needs a `name`/ })
  await assert.rejects(host.load(5), TypeError)
})

test('loading the same component again keeps it', async () => {
  const host = await hostWith()
  const file = component('calculator')
  const first = await host.load(file, { limits: { deadline: 2000 } })
  assert.deepEqual(await host.load(file, { limits: { deadline: '2s' } }), first)
  assert.deepEqual(await host.load(readFileSync(file), { name: 'calculator', limits: { deadline: '2s' } }), first)
  for (const [source, options, message] of [
    [file, {}, /is already loaded with other limits; choose another name, or replace it with `\{ replace: true \}`$/],
    [file, { limits: { deadline: 2000 }, grants: { key_value: '1MiB' } }, /with another grant/],
    [component('text'), { name: 'calculator' }, /with other bytes/],
  ]) {
    await assert.rejects(host.load(source, options), (error) => {
      assert(error instanceof LoadError && error instanceof FumehoodError)
      assert.match(error.message, message)
      return true
    })
  }
})

test('a component is replaced in one step', async () => {
  const host = await hostWith('countdown')
  const calling = host.call('countdown__countdown', { from: 20, step_ms: 20 })
  await until(() => host.running === 1)
  const replaced = await host.load(component('calculator'), { name: 'countdown', replace: true })
  assert(replaced.tools.includes('countdown__add') && host.running === 1)
  assert.deepEqual((await host.call('countdown__add', { a: 3, b: 5 })).structured, { result: 8 })
  assert((await calling).ok)
  assert.equal(host.tool('countdown__countdown'), undefined)
})

test('a copy of a result has its members', async () => {
  const host = await hostWith('calculator')
  for (const [args, ok] of [[{ a: 4, b: 2 }, true], [{ a: 1, b: 0 }, false]]) {
    const result = await host.call('calculator__divide', args)
    const { port1, port2 } = new MessageChannel()
    port1.postMessage(result)
    const received = await new Promise((resolve) => port2.once('message', resolve))
    port1.close()
    for (const copy of [structuredClone(result), received, { ...result }]) {
      assert.equal(copy.ok, ok)
      for (const name of ['ok', 'ran', 'id', 'tool', 'content', 'structured', 'text', 'modelText', 'error', 'metadata']) {
        assert.deepEqual(copy[name], result[name], name)
      }
    }
  }
})

test('the JSON of a result is its value', async () => {
  const host = await hostWith('calculator')
  await host.load('tell-context.wasm', { grants: { state: true } })
  assert.deepEqual((await host.call('calculator__add', { a: 3, b: 5 })).json(), { result: 8 })
  assert.deepEqual((await host.call('tell-context__state', {}, { state: [1] })).json(), [1])
  const text = await host.call('tell-context__state')
  assert.throws(() => text.json(), { name: 'TypeError', message: /^the text part of the result does not match/ })
  const failed = await host.call('calculator__divide', { a: 1, b: 0 })
  assert.throws(() => failed.json(), { name: 'TypeError', message: /^tool_failed: / })
})

test('results say whether the tool ran', async () => {
  const host = await hostWith('calculator')
  for (const [expression, ran] of [['1+1', true], ['1+', true], [1, false]]) {
    const result = await host.call('calculator__evaluate', { expression })
    assert.equal(result.ran, ran)
    assert.equal(result.error?.kind ?? 'invalid_arguments', 'invalid_arguments')
  }
})

test('times are milliseconds, or have a unit', async () => {
  const host = await hostWith()
  await host.load(SPIN_COMPONENT, { name: 'spin', limits: { deadline: 60_000, fuel: '1000G' } })
  for (const deadline of [100, '100ms']) {
    const late = await host.call('spin__run', {}, { limits: { deadline } })
    assert.deepEqual([late.error.kind, late.metadata.deadline_ms], ['deadline', 100])
  }
})

test('calls have an id and a state', async () => {
  const host = await hostWith()
  await host.load('tell-context.wasm', { grants: { state: true } })
  await host.load('tell-context.wasm', { name: 'bare' })
  const state = { city: 'Bern', visits: [1, 2] }
  const result = await host.call('tell-context__state', {}, { id: 'request-7', actor: 'ann', state })
  assert.equal(result.id, 'request-7')
  assert.deepEqual(result.json(), state)
  const events = []
  for await (const event of host.stream('tell-context__state', {}, { id: 'request-8', state })) events.push(event)
  assert.deepEqual([events.at(-1).id, events.at(-1).json()], ['request-8', state])
  assert.equal((await host.call('tell-context__state')).text, 'none')
  assert.equal((await host.call('bare__state', {}, { state })).text, 'none')
})

test('aliases are names that every provider accepts', async () => {
  const host = await hostWith('calculator')
  await host.load(component('calculator'), { name: 'n'.repeat(64) })
  const tool = host.tool(`${'n'.repeat(64)}__add`)
  assert(tool.alias.length === 64 && tool.alias !== tool.name)
  assert.equal(host.tool(tool.alias).name, tool.name)
  const result = await host.call(tool.alias, { a: 3, b: 5 })
  assert.deepEqual([result.structured, result.tool], [{ result: 8 }, tool.name])
  assert.equal(host.tool('calculator__add').alias, 'calculator__add')
})

test('a signal has one listener, however many calls use it', async () => {
  const host = await hostWith('countdown')
  const controller = new AbortController()
  const { signal } = controller
  const warnings = []
  const warn = (warning) => warnings.push(warning.name)
  process.on('warning', warn)
  const calls = Array.from({ length: 20 }, () => host.call('countdown__countdown', FOREVER, { signal }))
  const done = await host.call('countdown__countdown', { from: 1, step_ms: 1 }, { signal })
  assert(done.ok && getEventListeners(signal, 'abort').length === 1)
  await until(() => host.running > 0)
  controller.abort()
  for (const { reason } of await Promise.allSettled(calls)) assert.equal(reason.name, 'AbortError')
  await until(() => host.running === 0)
  const unused = new AbortController()
  await Promise.all([1, 2].map(() => host.call('countdown__countdown', { from: 1, step_ms: 1 }, { signal: unused.signal })))
  assert.equal(getEventListeners(unused.signal, 'abort').length, 0)
  await sleep(1)
  process.off('warning', warn)
  assert.deepEqual(warnings, [])
})

test('a signal stops the guest, and rejects with its reason', async () => {
  const host = await hostWith('countdown')
  for (let i = 0; i < 2; i++) {
    const controller = new AbortController()
    const calling = host.call('countdown__countdown', FOREVER, { signal: controller.signal })
    await until(() => host.running === 1)
    controller.abort(new Error('enough'))
    await assert.rejects(calling, /^Error: enough$/)
    // A guest that went on would run for 50 s.
    await until(() => host.running === 0)
  }
  const aborted = AbortSignal.abort()
  await assert.rejects(host.call('countdown__countdown', FOREVER, { signal: aborted }), { name: 'AbortError' })
  await assert.rejects(host.load(component('calculator'), { signal: aborted }), { name: 'AbortError' })
  assert.equal(host.running, 0)
  const unused = new AbortController()
  assert((await host.call('countdown__countdown', { from: 1, step_ms: 1 }, { signal: unused.signal })).ok)
})

test('a loop ends at its deadline, or when its fuel is used up', async () => {
  const host = await hostWith()
  await host.load(SPIN_COMPONENT, { name: 'spin', limits: { deadline: '60s', fuel: '1000G' } })
  const late = await host.call('spin__run', {}, { limits: { deadline: '100ms' } })
  assert.equal(late.error.kind, 'deadline')
  assert(late.metadata.duration_ms >= 90)
  const empty = await host.call('spin__run', {}, { limits: { fuel: '1M' } })
  assert.equal(empty.error.kind, 'fuel')
})

test('the event loop goes on while tools run', async () => {
  const host = await hostWith()
  await host.load(SPIN_COMPONENT, { name: 'spin', limits: { deadline: '300ms', fuel: '1000G' } })
  let ticks = 0
  const ticking = setInterval(() => ticks++, 1)
  const results = await Promise.all(Array.from({ length: 4 }, () => host.call('spin__run')))
  clearInterval(ticking)
  assert(results.every((result) => result.error.kind === 'deadline'))
  // It would be one or none if a guest held the loop.
  assert(ticks > 10, `${ticks} ticks`)
})

test('events come before the result', async () => {
  const host = await hostWith('countdown')
  const events = []
  for await (const event of host.stream('countdown__countdown', { from: 3, step_ms: 1 })) events.push(event)
  const result = events.pop()
  assert(result instanceof Result && result.ok)
  assert.deepEqual(
    events.map((event) => [event.type, event.message]),
    ['1 of 3', '2 of 3', '3 of 3'].map((message) => ['progress', message]),
  )
  for await (const event of host.stream('countdown__countdown', { from: 'x' })) {
    assert.equal(event.error.kind, 'invalid_arguments')
  }
})

test('leaving the loop over events stops the guest, and so does a signal', async () => {
  const host = await hostWith('countdown')
  for await (const event of host.stream('countdown__countdown', FOREVER)) {
    assert.equal(event.message, '1 of 1000')
    break
  }
  await until(() => host.running === 0)
  const controller = new AbortController()
  const streaming = async () => {
    for await (const event of host.stream('countdown__countdown', FOREVER, { signal: controller.signal })) {
      assert.equal(event.type, 'progress')
      controller.abort()
    }
  }
  await assert.rejects(streaming(), { name: 'AbortError' })
  await until(() => host.running === 0)
})

for (const [options, message] of [
  [{ grants: { raed: ['./a:/a'] } }, /`grants\.raed`: unknown field `raed`, expected one of `state`, `read`, `write`/],
  [{ grants: { read: ['docs'] } }, /`grants`: read\[0\]: `docs` has no path for the tool/],
  [{ grants: { read: './docs:/docs' } }, /`grants\.read`: invalid type: string/],
  [{ grants: { http: ['GET example.com'] } }, /`grants`: http\[0\]: invalid rule `GET example\.com`/],
  [{ grants: { http: ['GETT https://a.example/'] } }, /did you mean `GET`\?/],
  [{ limits: { deadlin: '1s' } }, /`limits\.deadlin`: unknown field `deadlin`/],
  [{ limits: { deadline: -1 } }, /`limits\.deadline`: invalid time `-1`; expected a number of milliseconds/],
  [{ limits: { deadline: [] } }, /`limits\.deadline`: invalid type: sequence, expected a string with a number and a unit, such as "2s"/],
  [{ limits: { deadline: 'soon' } }, /`limits\.deadline`: invalid time `soon`/],
  [{ grant: {} }, /unknown option `grant`; expected one of name, grants, capabilities, limits/],
]) {
  test(`misspelt settings are refused: ${JSON.stringify(options)}`, async () => {
    const host = await hostWith()
    await assert.rejects(host.load(component('calculator'), options), (error) => {
      assert(error instanceof TypeError && error.code === 'ERR_FUMEHOOD_SETTING')
      assert.match(error.message, message)
      return true
    })
    assert.deepEqual(host.tools(), [])
  })
}

test('settings of a host are checked', async () => {
  assert.throws(() => new Host({ isolation: 'jail' }), { code: 'ERR_FUMEHOOD_SETTING', message: /`isolation`: unknown variant `jail`/ })
  assert.throws(() => new Host({ memoryCeiling: 'much' }), /`memory_ceiling`: invalid size `much`/)
  assert.throws(
    () => new Host({ limits: { deadline: '0s' } }),
    (error) => error instanceof HostError && error.code === 'ERR_FUMEHOOD_HOST' && /the deadline limit is zero/.test(error.message),
  )
  const host = new Host({ program: '/nothing' })
  await assert.rejects(host.load(SPIN_COMPONENT, { name: 'spin' }), /nothing/)
  await assert.rejects((await hostWith('calculator')).call('calculator__add', {}, { limit: {} }), /unknown option `limit`/)
})

test('calls without the name of a tool are errors of the program', async () => {
  const host = await hostWith()
  await assert.rejects(host.call(), { name: 'TypeError', message: /expected the name of a tool/ })
  await assert.rejects(host.stream(5).next(), { name: 'TypeError', message: /expected the name of a tool/ })
})

test('references need settings of registries, which are checked', async () => {
  const store = join(temporaryFolder(), 'store')
  const reference = 'oci://localhost:1/acme/calculator:1.0'
  await assert.rejects((await hostWith()).load(reference), /is a reference; set `registry`/)
  assert.throws(() => new Host({ registry: { store, trusted_keys: ['no key'] } }), /`registry\.trusted_keys`: /)
  assert.throws(() => new Host({ registry: { store, signature: 'off' } }), /`registry\.signature`: unknown field/)
  await assert.rejects(new Host({ registry: { store, offline: true } }).load(reference), LoadError)
})

test('with a lock, what was not approved cannot be called', async () => {
  const host = new Host({ lock: join(temporaryFolder(), 'fumehood.lock') })
  await host.load(component('calculator'))
  assert.equal((await host.call('calculator__add', { a: 1, b: 1 })).error.kind, 'needs_approval')
})

test('grants are what a tool may do', async () => {
  const host = await hostWith()
  const folder = temporaryFolder()
  await host.load(component('files'), { grants: { write: [{ folder, guest: '/out', bytes: '1KiB' }] } })
  const names = host.tools().map((tool) => tool.name)
  assert(names.length > 0 && host.tools()[0].powers.some((power) => power.includes('/out')))
  await host.load(component('files'), { name: 'powerless' })
  assert.deepEqual(host.tool(names[0].replace('files__', 'powerless__')).powers, [])
})

test('keys and values are kept in a file', async () => {
  const keyValueStore = join(temporaryFolder(), 'notes.db')
  for (const expected of [0, 1]) {
    const host = new Host({ keyValueStore })
    await host.load(component('notes'), { grants: { key_value: '1MiB' } })
    const listed = await host.call('notes__list', {})
    assert.equal(listed.modelText.split('milk').length - 1, expected, listed.modelText)
    assert((await host.call('notes__write', { title: 'milk', text: 'two' })).ok)
    await host.shutdown()
  }
})

test('calls are recorded in a log that is verified', async () => {
  const log = join(temporaryFolder(), 'events.db')
  const host = new Host({ log })
  await host.load(component('calculator'))
  await host.call('calculator__add', { a: 3, b: 5 }, { actor: 'ann' })
  await host.shutdown()
  const report = await host.verifyLog()
  assert.deepEqual([report.ok, report.rows, report.finding], [true, 5, null])
  await assert.rejects((await hostWith()).verifyLog(), { name: 'TypeError', message: /this host records no calls/ })
})

test('isolated components run in a process of their own', async () => {
  const host = await hostWith()
  const loaded = await host.load(component('calculator'), { isolated: true })
  assert.equal(loaded.isolated, true)
  assert.deepEqual((await host.call('calculator__add', { a: 3, b: 5 })).structured, { result: 8 })
})

test('a host that was shut down accepts no calls', async () => {
  const host = await hostWith('calculator')
  await host.shutdown()
  assert.equal((await host.call('calculator__add', { a: 1, b: 1 })).error.kind, 'unavailable')
})

test('a thousand calls at once all end', async () => {
  const host = await hostWith('calculator')
  const calls = Array.from({ length: 1000 }, (_, a) => host.call('calculator__add', { a, b: 1 }))
  const sums = (await Promise.all(calls)).map((result) => result.structured?.result ?? result.error)
  assert.deepEqual(sums, Array.from({ length: 1000 }, (_, a) => a + 1))
})

/** A program that makes a host and does something with it. */
function program(body) {
  return `
    import { Host } from 'fumehood'
    const host = new Host()
    await host.load(${JSON.stringify(component('countdown'))}, { limits: { deadline: '60s' } })
    ${body}
  `
}

for (const [what, body, code] of [
  ['ends when nothing runs', 'console.log("end")', 0],
  ['waits for a call', 'host.call("countdown__countdown", { from: 2, step_ms: 50 }).then(() => console.log("end"))', 0],
  [
    'exits with running calls',
    `host.call("countdown__countdown", ${JSON.stringify(FOREVER)})
     setTimeout(() => { console.log("end"); process.exit(7) }, 100)`,
    7,
  ],
]) {
  test(`a process ${what}`, async () => {
    const args = ['--input-type=module', '--eval', program(body)]
    const done = await run(process.execPath, args, { cwd: import.meta.dirname ?? '.', timeout: 60_000 }).catch((error) => error)
    assert.equal(done.stdout, 'end\n', done.stderr)
    assert.equal(done.code ?? 0, code)
    assert.equal(done.signal ?? null, null)
  })
}

test('worker threads have hosts, and end with running calls', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    import('fumehood').then(async ({ Host }) => {
      const host = new Host()
      await host.load(${JSON.stringify(component('countdown'))}, { limits: { deadline: '60s' } })
      const result = await host.call('countdown__countdown', { from: 1, step_ms: 1 })
      host.call('countdown__countdown', ${JSON.stringify(FOREVER)})
      for await (const event of host.stream('countdown__countdown', ${JSON.stringify(FOREVER)})) parentPort.postMessage(result.ok)
    })
  `
  const workers = [1, 2].map(() => new Worker(source, { eval: true }))
  await Promise.all(
    workers.map(
      (worker) =>
        new Promise((resolve, reject) => {
          worker.once('message', (ok) => (ok ? resolve() : reject(new Error('the call failed'))))
          worker.once('error', reject)
        }),
    ),
  )
  await Promise.all(workers.map((worker) => worker.terminate()))
  // The process is still sound, and so is another host in it.
  const host = await hostWith('calculator')
  assert((await host.call('calculator__add', { a: 1, b: 1 })).ok)
})

test('a host that is collected does not end its calls', async () => {
  const calling = (await hostWith('countdown')).call('countdown__countdown', { from: 20, step_ms: 10 })
  for (let i = 0; i < 10; i++) {
    // Garbage, so that the collector runs.
    Array.from({ length: 100_000 }, (_, n) => ({ n }))
    globalThis.gc?.()
    await sleep(10)
  }
  assert((await calling).ok)
})

test('the command is installed', async () => {
  const done = await run('node_modules/.bin/fumehood', ['--version'])
  assert.match(done.stdout, /^fumehood \d/)
})
