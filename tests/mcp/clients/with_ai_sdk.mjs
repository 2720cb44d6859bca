// Uses a gateway's tools of server-everything with the AI SDK: with_ai_sdk.mjs MODULES URL, or with_ai_sdk.mjs MODULES COMMAND ARG…
import { createRequire } from 'node:module';

const [modules, ...target] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { createMCPClient, ElicitationRequestSchema } = await import(require.resolve('@ai-sdk/mcp'));
const { Experimental_StdioMCPTransport: Stdio } = await import(require.resolve('@ai-sdk/mcp/mcp-stdio'));

const transport = target.length > 1
    ? new Stdio({ command: target[0], args: target.slice(1), env: process.env })
    : { type: 'http', url: target[0] };
const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => {
    console.log('asked:', params.message);
    return { action: 'accept', content: { name: 'Ann', check: true } };
});
const tools = await client.tools();
const call = (name, input, abortSignal) =>
    tools[`everything__${name}`].execute(input, { toolCallId: '1', messages: [], abortSignal });

console.log('lists echo:', 'everything__echo' in tools);
console.log('text:', (await call('echo', { message: 'é' })).content[0].text);
const structured = await call('get-structured-content', { location: 'New York' });
console.log('structured:', structured.structuredContent.conditions);
const failed = await call('get-sum', { a: 1, b: 'x' });
console.log('error:', failed.isError, failed.content[0].text.split('\n')[0]);
const answered = await call('trigger-elicitation-request', {});
console.log('answered:', answered.content[1].text.split('\n')[1]);
await call('trigger-long-running-operation', { duration: 60, steps: 2 }, AbortSignal.timeout(1000))
    .catch(() => console.log('cancelled'));
console.log('text:', (await call('echo', { message: 'after' })).content[0].text);
await client.close();
