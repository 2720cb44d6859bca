import type { StructuredTool } from '@langchain/core/tools'
import type { Host } from './index.js'

/** Returns the tools that are loaded now. A failure of one is a message of status "error" to the model. */
export function tools(host: Host): StructuredTool[]
