"""Uses a gateway's tools of server-everything with LangChain: with_langchain.py URL, or with_langchain.py COMMAND ARG…"""

import asyncio
import os
import sys

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitRequestParams, ElicitResult


async def answer(mcp_context: object, params: ElicitRequestParams, context: object) -> ElicitResult:
    print("asked:", params.message)
    return ElicitResult(action="accept", content={"name": "Ann", "check": True})


async def main(target: list[str]) -> None:
    if len(target) == 1:
        server = {"transport": "streamable_http", "url": target[0]}
    else:
        server = {"transport": "stdio", "command": target[0], "args": target[1:], "env": dict(os.environ)}
    client = MultiServerMCPClient({"gateway": server}, callbacks=Callbacks(on_elicitation=answer))
    async with client.session("gateway") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        print("lists echo:", "everything__echo" in tools)
        parts = await tools["everything__echo"].ainvoke({"message": "é"})
        print("text:", parts[0]["text"])
        parts = await tools["everything__get-tiny-image"].ainvoke({})
        print("image:", [part["mime_type"] for part in parts if part["type"] == "image"])
        parts = await tools["everything__get-sum"].ainvoke({"a": 1, "b": "x"})
        print("error:", parts[0]["text"].splitlines()[0])
        parts = await tools["everything__trigger-elicitation-request"].ainvoke({})
        print("answered:", parts[1]["text"].splitlines()[1])


asyncio.run(main(sys.argv[1:]))
