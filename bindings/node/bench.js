// Measures the cost of a call from Node.
//
//     bindings/node/build release target/npm
//     mkdir bench && cd bench && npm init -y && npm install ../target/npm/fumehood-*.tgz
//     cp ../bindings/node/bench.js bench.mjs && node bench.mjs ../example-tools/dist
//
// The time in the sandbox is that of the result's own metadata. The rest is the way there and back: arguments to JSON, the gate, and the
// result. "Elsewhere" are calls that do not begin on the thread of JavaScript, such as those of tools that take longer.
import { join } from 'node:path'
import { Host } from 'fumehood'

const CALLS = 20_000
const ROUNDS = 5
const folder = process.argv[2] ?? 'example-tools/dist'

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

/** Prints the median of some rounds of calls, in microseconds for each. */
async function measure(name, calls, round) {
  const each = []
  for (let i = 0; i < ROUNDS; i++) {
    const begun = process.hrtime.bigint()
    await round()
    each.push(Number(process.hrtime.bigint() - begun) / 1e3 / calls)
  }
  const micros = median(each)
  console.log(`${name.padEnd(44)} ${micros.toFixed(1).padStart(8)} µs   ${Math.round(1e6 / micros).toLocaleString('en').padStart(10)} calls/s`)
}

async function each(host, tool, args, calls, options) {
  for (let i = 0; i < calls; i++) await host.call(tool, args, options)
}

const host = new Host()
await host.load(join(folder, 'calculator.wasm'))
await host.load(join(folder, 'countdown.wasm'), { limits: { deadline: '60s' } })
const [tool, args] = ['calculator__add', { a: 3, b: 5 }]
const inside = []
for (let i = 0; i < 1000; i++) inside.push((await host.call(tool, args)).metadata.duration_ms * 1e3)
console.log(`${CALLS} calls, the median of ${ROUNDS} rounds`)
console.log(`${'in the sandbox, of one call'.padEnd(44)} ${median(inside).toFixed(1).padStart(8)} µs`)
await measure('await call', CALLS, () => each(host, tool, args, CALLS))
await measure('await call, with a signal', CALLS, () => each(host, tool, args, CALLS, { signal: new AbortController().signal }))
await measure('await call, and its value', CALLS, async () => {
  for (let i = 0; i < CALLS; i++) if ((await host.call(tool, args)).structured.result !== 8) throw new Error('wrong')
})
const larger = { limits: { memory: '65MiB' } }
await measure('await call, elsewhere', CALLS / 4, () => each(host, tool, args, CALLS / 4, larger))
await measure('100 calls at once, elsewhere', CALLS / 4, async () => {
  for (let i = 0; i < CALLS / 4; i += 100) await Promise.all(Array.from({ length: 100 }, () => host.call(tool, args, larger)))
})

const stops = []
for (let i = 0; i < 50; i++) {
  const controller = new AbortController()
  const calling = host.call('countdown__countdown', { from: 1000, step_ms: 50 }, { signal: controller.signal })
  while (host.running === 0) await new Promise(setImmediate)
  const begun = process.hrtime.bigint()
  controller.abort()
  await calling.catch(() => {})
  while (host.running !== 0) await new Promise(setImmediate)
  stops.push(Number(process.hrtime.bigint() - begun) / 1e6)
}
console.log(`${'a call that is aborted is gone'.padEnd(44)} ${median(stops).toFixed(1).padStart(8)} ms   at most ${Math.max(...stops).toFixed(1)} ms`)
