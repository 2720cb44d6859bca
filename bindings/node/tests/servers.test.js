// MCP servers, whose tools are called like the tools of components.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { Host, HostError, LoadError } from 'fumehood'
import { component, hostWith, temporaryFolder, until } from './shared.js'

const SERVER = `
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod/v3'
const server = new McpServer({ name: 'test', version: '1' })
const text = (text) => ({ content: [{ type: 'text', text }] })
server.tool('greet', 'Greets a person.', { name: z.string() }, ({ name }) => text('Hello, ' + name + '!'))
server.tool('wait', { ms: z.number() }, async ({ ms }) => (await new Promise((done) => setTimeout(done, ms)), text('done')))
server.tool('environment', {}, () => text(JSON.stringify({ pid: process.pid, plain: process.env.PLAIN, home: process.env.OTHER })))
await server.connect(new StdioServerTransport())
`
const command = [process.execPath, '--input-type=module', '-e', SERVER]

function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('tools of a server are called as others', async () => {
  const host = await hostWith('calculator')
  const server = await host.addServer('test', { command, read: ['node_modules'], startTimeout: '120s' })
  assert.deepEqual([server.name, server.ignored], ['test', []])
  assert.deepEqual([...server.tools].sort(), ['test__environment', 'test__greet', 'test__wait'])
  const names = host.tools().map(({ name }) => name)
  assert(names.includes('calculator__add') && names.includes('test__greet'))
  assert.deepEqual(names, [...names].sort())
  assert.equal(host.tool('test__greet').description, 'Greets a person.')
  for (let i = 0; i < 2; i++) {
    const result = await host.call('test__greet', { name: 'Ada' })
    assert.deepEqual([result.ok, result.tool, result.text], [true, 'test__greet', 'Hello, Ada!'])
  }
  const refused = await host.call('test__greet', { name: 5 })
  assert.deepEqual([refused.error.kind, refused.ran], ['invalid_arguments', false])
  const late = await host.call('test__wait', { ms: 60_000 }, { limits: { deadline: 100 } })
  assert.equal(late.error.kind, 'deadline')
  await assert.rejects(host.call('test__wait', { ms: 60_000 }, { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
  await host.shutdown()
})

test('agents call servers', async () => {
  const host = await hostWith()
  await host.addServer('test', { command, read: ['node_modules'], startTimeout: '120s', tools: ['greet'] })
  const replies = [{ tool_calls: [{ name: 'test__greet', arguments: { name: 'Ada' } }] }, 'Done.']
  const result = await host.agent({ model: () => replies.shift() }).run('Greet Ada.')
  assert.deepEqual(result.calls.map(({ tool, result }) => [tool, result.text]), [['test__greet', 'Hello, Ada!']])
  await host.shutdown()
})

test('servers end with the host', async () => {
  const host = await hostWith()
  process.env.OTHER = 'not passed on'
  await host.addServer('test', { command, read: ['node_modules'], startTimeout: '120s', env: { PLAIN: 'x' } })
  const { pid, plain, home } = JSON.parse((await host.call('test__environment')).text)
  assert.deepEqual([plain, home, isRunning(pid)], ['x', undefined, true])
  await host.shutdown()
  await until(() => !isRunning(pid))
  assert.equal(host.tool('test__environment'), undefined)
  await assert.rejects(host.addServer('test', { command, read: ['node_modules'], startTimeout: '120s' }), HostError)
})

test('a server is removed', async () => {
  const host = await hostWith()
  await host.addServer('test', { command, read: ['node_modules'], startTimeout: '120s' })
  assert.deepEqual([await host.removeServer('test'), await host.removeServer('test')], [true, false])
  assert.equal((await host.call('test__greet', { name: 'Ada' })).error.kind, 'unknown_tool')
  await host.shutdown()
})

test('servers that cannot be used are errors', async () => {
  const host = await hostWith('calculator')
  for (const [name, options, message] of [
    ['a', { command: ['/nothing'] }, /cannot use the server `a`: cannot start `\/nothing`/],
    ['calculator', { command, startTimeout: '120s' }, /`calculator` is the name of another/],
  ]) {
    await assert.rejects(host.addServer(name, options), (error) => {
      assert(error instanceof LoadError)
      assert.match(error.message, message)
      return true
    })
  }
  for (const [options, message] of [
    [{}, /`command`: expected either/],
    [{ command, timeout: -1 }, /`timeout`: invalid time `-1/],
    [{ commands: [] }, /unknown option `commands`/],
    [{ url: 'http://mcp.example.com', bearer: { env: 'PATH' } }, /`url`: a token or a secret header/],
  ]) {
    await assert.rejects(host.addServer('a', options), { code: 'ERR_FUMEHOOD_SETTING', message })
  }
  const locked = new Host({ lock: join(temporaryFolder(), 'fumehood.lock') })
  await assert.rejects(locked.addServer('test', { command, read: ['node_modules'], startTimeout: '120s' }), /is not what the lock approves/)
  await host.addServer('a', { command, read: ['node_modules'], startTimeout: '120s' })
  await assert.rejects(host.load(component('calculator'), { name: 'a' }), /`a` is already loaded/)
  await host.shutdown()
})
