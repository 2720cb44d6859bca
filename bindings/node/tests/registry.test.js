// Components of a registry: published by the command of this package, and loaded if a trusted key signed them.
import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { createServer, connect } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Host, LoadError } from 'fumehood'
import { component, skip, temporaryFolder, until } from './shared.js'

const run = promisify(execFile)

/** Returns a free port of this machine. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** Starts a registry that is empty, and returns its address and the function that ends it. */
async function startRegistry(folder) {
  const address = `127.0.0.1:${await freePort()}`
  const settings = `version: 0.1\nstorage: {filesystem: {rootdirectory: ${folder}/data}}\nhttp: {addr: '${address}'}\n`
  writeFileSync(join(folder, 'config.yml'), settings)
  const server = spawn('docker-registry', ['serve', join(folder, 'config.yml')], { stdio: 'ignore' })
  let isOpen = false
  await until(() => {
    const [host, port] = address.split(':')
    const socket = connect({ host, port }, () => {
      isOpen = true
      socket.end()
    }).on('error', () => {})
    return isOpen
  })
  return { address, end: () => server.kill() }
}

test('signed components of a registry are loaded if their key is trusted', async (context) => {
  if (spawnSync('docker-registry', ['--version']).error) return skip(context, 'docker-registry', 'there is no docker-registry here')
  const folder = temporaryFolder()
  const registry = await startRegistry(folder)
  context.after(registry.end)
  const env = { HOME: folder, PATH: process.env.PATH, FUMEHOOD_KEY_PASSPHRASE: 'correct horse' }
  const fumehood = (...args) => run('node_modules/.bin/fumehood', args, { env })
  for (const name of ['acme', 'stranger']) {
    await fumehood('key', 'new', name)
    writeFileSync(join(folder, `${name}.pem`), (await fumehood('key', 'export', name)).stdout)
  }
  const reference = `oci://${registry.address}/acme/calculator:1.0.0`
  await fumehood('publish', reference, component('calculator'), '--sign', 'acme')
  const trusting = (name, options) => {
    const trusted_keys = [{ file: join(folder, `${name}.pem`) }]
    return new Host({ registry: { store: join(folder, `store-of-${name}`), trusted_keys, ...options } })
  }
  const host = trusting('acme')
  const loaded = await host.load(reference)
  assert.equal(loaded.name, 'calculator')
  assert.deepEqual((await host.call('calculator__add', { a: 3, b: 5 })).structured, { result: 8 })
  // From the store, where the signature is kept as well.
  assert.equal((await trusting('acme', { offline: true }).load(reference)).digest, loaded.digest)
  await assert.rejects(trusting('stranger').load(reference), (error) => error instanceof LoadError && /sign/.test(error.message))
  await assert.rejects(new Host({ registry: { store: join(folder, 'other') } }).load(reference), /no key is trusted/)
})
