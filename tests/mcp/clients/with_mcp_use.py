"""Uses a gateway's tools of server-everything with mcp-use: with_mcp_use.py URL, or with_mcp_use.py COMMAND ARG…"""

import asyncio
import os
import sys

from mcp.types import ElicitRequestParams, ElicitResult
from mcp_use import MCPClient


async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
    print("asked:", params.message)
    return ElicitResult(action="accept", content={"name": "Ann", "check": True})


async def main(target: list[str]) -> None:
    if len(target) == 1:
        server = {"url": target[0]}
    else:
        server = {"command": target[0], "args": target[1:], "env": dict(os.environ)}
    client = MCPClient({"mcpServers": {"gateway": server}}, elicitation_callback=answer)
    await client.create_all_sessions()
    session = client.get_session("gateway")
    print("lists echo:", "everything__echo" in [tool.name for tool in await session.list_tools()])
    called = await session.call_tool("everything__echo", {"message": "é"})
    print("text:", called.content[0].text)
    failed = await session.call_tool("everything__get-sum", {"a": 1, "b": "x"})
    print("error:", failed.isError, failed.content[0].text.splitlines()[0])
    called = await session.call_tool("everything__trigger-elicitation-request", {})
    print("answered:", called.content[1].text.splitlines()[1])
    await client.close_all_sessions()


asyncio.run(main(sys.argv[1:]))
