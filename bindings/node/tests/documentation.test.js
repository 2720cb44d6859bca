// The programs of docs/node-embedding.md, and the lines of README.md, run as they are written.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { component } from './shared.js'

const blocks = (page) => [...readFileSync(page, 'utf8').matchAll(/```js\n(.*?)```/gs)].map(([, block]) => block)
const readme = blocks('README.md').map((lines) => `import { Host } from 'fumehood'\n${lines}console.log(result.structured)`)
const programs = [...blocks('node-embedding.md'), ...readme]
const printed = [
  ["calculator__add [ 'a', 'b' ]", 'true { result: 8 }', 'invalid_arguments: /a: expected a number'],
  ['read files in /docs', '{ result: 2 }'],
  ['1 of 3', '3 of 3', "tool: 'countdown__countdown'", 'stopped'],
  ['calculator__add'],
  ['{ result: 8 }'],
]

test('every program of the documentation has its lines here', () => assert.equal(programs.length, printed.length))

programs.forEach((program, index) => {
  test(`program ${index + 1} of the documentation runs`, async () => {
    // Within this folder, where the packages are found.
    const folder = mkdtempSync(join(process.cwd(), 'program-'))
    try {
      for (const name of ['calculator', 'countdown']) copyFileSync(component(name), join(folder, `${name}.wasm`))
      mkdirSync(join(folder, 'docs'))
      writeFileSync(join(folder, 'program.mjs'), program)
      const options = { cwd: folder, timeout: 120_000 }
      const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], options)
      for (const line of printed[index]) assert(stdout.includes(line), stdout)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
