// What the tests share: the components of the repository, a folder for compiled code, and waiting.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Host } from 'fumehood'

const ROOT = process.env.FUMEHOOD_ROOT

/** The component of tests/programs/spin.wat: its function `run` loops for ever. */
export const SPIN_COMPONENT = Buffer.from(
  '0061736d0d00010001310061736d01000000010401600000030201000707010372756e00000a0901070003400c000b0b0009046e616d65' +
    '0002016d02040100000007050140000100060901000001000372756e08060100000000000b0901000372756e010000001f0e636f6d706f' +
    '6e656e742d6e616d65010600110100016d0106001201000169',
  'hex',
)

// Names that the libraries, JavaScript or this package may take for themselves.
const NAMES =
  'abortSignal args arguments artifact callbacks config constructor context ctx func function host id input messages metadata name ' +
  'options self signal state tags then toJSON tool toolCall toolCallId tool_call_id type'

/** Arguments with these names. */
export const ARGUMENTS = Object.fromEntries(NAMES.split(' ').map((name, number) => [name, number]))

/** Calls whose results are a text and a picture. */
export const OUTPUTS = [
  ['mcp-conformance__test_simple_text', {}],
  ['mcp-conformance__test_image_content', {}],
]

/** Leaves a test out because this machine lacks `what`; in the gate that is a failure, by the rule of `tests/skip`. */
export function skip(context, what, why) {
  const { status, stderr } = spawnSync(join(ROOT, 'tests', 'skip'), [what, why], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  context.skip(why)
}

/** Returns the file of an example tool. */
export function component(name) {
  return join(ROOT, 'example-tools', 'dist', `${name}.wasm`)
}

/** Returns a folder that is removed after the tests of the file. */
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'fumehood-node-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

// One for each file of tests, so that a component is compiled once.
const cache = temporaryFolder()

/** Returns a host with these example tools. */
export async function hostWith(...names) {
  const host = new Host({ cache })
  for (const name of names) await host.load(component(name), { limits: { deadline: '60s' } })
  return host
}

/** Waits until a condition holds. The limit is for a machine that is busy with other things. */
export async function until(condition) {
  for (const end = Date.now() + 30_000; !condition(); await sleep(2)) {
    if (Date.now() > end) throw new Error(`it never came to be: ${condition}`)
  }
}
