// A program with the adapter for Mastra, whose own declarations do not pass the type checker.
import { Host } from 'fumehood'
import { tools } from 'fumehood/mastra'
import { Agent } from '@mastra/core/agent'

export function use(host: Host): Agent {
  // @ts-expect-error: the host is needed.
  tools()
  return new Agent({ id: 'a', name: 'a', instructions: '', model: 'openai/gpt-5', tools: tools(host) })
}
