// The programs of docs/node-embedding.md, and the lines of README.md, run as they are written.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { component } from './shared.js'

// Returns the programs of a page, each with what the page says that it prints.
const blocks = (page) =>
  readFileSync(page, 'utf8').split('```js\n').slice(1).map((part) => ({
    program: part.split('```')[0],
    printed: part.match(/```text\n(.*?)```/s)?.[1] ?? '',
  }))
const readme = blocks('README.md').map(({ program }) => ({
  program: `import { Host } from 'fumehood'\n${program}console.log(result.structured)`,
  printed: '{ result: 8 }\n',
}))
const programs = [...blocks('node-embedding.md'), ...readme]

test('the page says what its programs print', () => {
  assert.equal(programs.filter(({ printed }) => printed).length, 11)
})

programs.forEach(({ program, printed }, index) => {
  test(`program ${index + 1} of the documentation runs`, async () => {
    // Within this folder, where the packages are found.
    const folder = mkdtempSync(join(process.cwd(), 'program-'))
    try {
      for (const name of ['calculator', 'countdown']) copyFileSync(component(name), join(folder, `${name}.wasm`))
      copyFileSync('reader.wasm', join(folder, 'reader.wasm'))
      mkdirSync(join(folder, 'docs'))
      // As in the project of a reader.
      symlinkSync('../node_modules', join(folder, 'node_modules'))
      writeFileSync(join(folder, 'program.mjs'), program)
      const options = { cwd: folder, timeout: 120_000 }
      const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], options)
      // The time that a tool has waited is that of this machine.
      assert.equal(stdout.replace(/waited_ms: \d+/, 'waited_ms: 30'), printed)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
