import type { Tool } from 'ai'
import type { Host } from './index.js'

/**
 * Returns the tools that are loaded now, by their aliases, for `generateText` and `streamText` of the Vercel AI SDK. A failure of one is
 * an error to the SDK, whose text the model reads.
 */
export function tools(host: Host): Record<string, Tool>
