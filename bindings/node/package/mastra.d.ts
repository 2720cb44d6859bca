import type { Tool } from '@mastra/core/tools'
import type { Host } from './index.js'

/** Returns the tools that are loaded now, by their aliases. A failure of one is an error to Mastra, whose text the model reads. */
export function tools(host: Host): Record<string, Tool>
