// Uses a gateway's tools of server-everything with LangChain: with_langchain.mjs MODULES URL, or with_langchain.mjs MODULES COMMAND ARG…
import { createRequire } from 'node:module';

const [modules, ...target] = process.argv.slice(2);
const { MultiServerMCPClient } = createRequire(`${modules}/`)('@langchain/mcp-adapters');

const gateway = target.length > 1
    ? { transport: 'stdio', command: target[0], args: target.slice(1), env: process.env }
    : { transport: 'http', url: target[0] };
const client = new MultiServerMCPClient({ mcpServers: { gateway } });
const tools = Object.fromEntries((await client.getTools()).map((tool) => [tool.name, tool]));
console.log('lists echo:', 'everything__echo' in tools);
console.log('text:', await tools.everything__echo.invoke({ message: 'é' }));
console.log('text:', await tools['everything__get-sum'].invoke({ a: 1, b: 2 }));
await client.close();
