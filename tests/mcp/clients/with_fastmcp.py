"""Uses a gateway's tools of server-everything with FastMCP: with_fastmcp.py URL, or with_fastmcp.py COMMAND ARG…"""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

SLOW = "everything__trigger-long-running-operation"


async def main(target: list[str]) -> None:
    reports = []

    async def told(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    async def answer(message: str, response_type: type, params: object, context: object) -> dict[str, object]:
        print("asked:", message)
        return {"name": "Ann", "check": True}

    server = target[0] if len(target) == 1 else StdioTransport(target[0], target[1:], env=dict(os.environ))
    async with Client(server, timeout=60, elicitation_handler=answer) as client:
        print("lists echo:", "everything__echo" in [tool.name for tool in await client.list_tools()])
        called = await client.call_tool("everything__echo", {"message": "é"})
        print("text:", called.content[0].text)
        called = await client.call_tool("everything__get-structured-content", {"location": "New York"})
        print("structured:", called.structured_content["conditions"])
        await client.call_tool(SLOW, {"duration": 1, "steps": 2}, progress_handler=told)
        print("progress:", len(reports))
        failed = await client.call_tool("everything__get-sum", {"a": 1, "b": "x"}, raise_on_error=False)
        print("error:", failed.is_error, failed.content[0].text.splitlines()[0])
        called = await client.call_tool("everything__trigger-elicitation-request", {})
        print("answered:", called.content[1].text.splitlines()[1])
        call = asyncio.create_task(client.call_tool(SLOW, {"duration": 60, "steps": 2}))
        await asyncio.sleep(1)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            print("cancelled")
        called = await client.call_tool("everything__echo", {"message": "after"})
        print("text:", called.content[0].text)


asyncio.run(main(sys.argv[1:]))
