import type { Server } from '@modelcontextprotocol/sdk/server/index.js'
import type { Host } from './index.js'

/**
 * Returns a server of the tools that are loaded whenever a client asks. A failure of one is a result with `isError`. Clients that ask for
 * the progress of a call get it.
 */
export function server(host: Host, name?: string): Server
