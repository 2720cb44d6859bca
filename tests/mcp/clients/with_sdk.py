"""Lists and calls the tools of the conformance fixture with the Python SDK of MCP: with_sdk.py URL, or with_sdk.py COMMAND ARG…"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters


async def main(target: list[str]) -> None:
    if len(target) == 1:
        server = target[0]
    else:
        server = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    async with Client(server, read_timeout_seconds=60) as client:
        listed = await client.list_tools()
        print("lists test_simple_text:", "test_simple_text" in [tool.name for tool in listed.tools])

        called = await client.call_tool("test_simple_text", {})
        print("text:", called.content[0].text)

        reports = []

        async def told(done: float, total: float | None, message: str | None) -> None:
            reports.append(done)

        await client.call_tool("test_tool_with_progress", {}, progress_callback=told)
        print("progress:", reports)

        failed = await client.call_tool("test_error_handling", {})
        print("error:", failed.is_error, failed.content[0].text.splitlines()[0])


asyncio.run(main(sys.argv[1:]))
