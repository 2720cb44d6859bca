"""The tools of a host as a server of the Python MCP SDK: ``fumehood.mcp.server(host)``. Needs ``mcp`` 2 or newer."""

from __future__ import annotations

import base64
import contextlib
import math
from collections.abc import AsyncGenerator
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession

from ._fumehood import VERSION, HostError, Progress, Result, Tool
from .host import Event, Host


def server(host: Host, name: str = "fumehood") -> Server[Any]:
    """Returns a server of the tools that are loaded whenever a client asks. A failure of one is a result with `isError`.

    Clients that ask for the progress of a call get it.
    """

    async def list_tools(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(tool) for tool in host.tools()])

    async def call_tool(context: ServerRequestContext[Any], call: types.CallToolRequestParams) -> types.CallToolResult:
        return _result(await _report_progress(host.stream(call.name, call.arguments or {}), context.session))

    return Server(name, version=VERSION, on_list_tools=list_tools, on_call_tool=call_tool)


async def _report_progress(events: AsyncGenerator[Event, None], session: ServerSession) -> Result:
    """Sends the progress of a call to a client that asked for it, and returns the result.

    The protocol wants a number that grows with each report.
    """
    done = -1.0
    total: float | None = None
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, Result):
                return event
            if not isinstance(event, Progress):
                continue
            if event.fraction is not None and event.fraction > done:
                done, total = event.fraction, 1.0
            elif event.message is None:
                continue
            else:
                done = done + 1 if total is None else math.nextafter(done, math.inf)
            await session.report_progress(done, total, event.message)
    raise HostError("the call ended without a result")


def _definition(tool: Tool) -> types.Tool:
    effects = tool.annotations
    return types.Tool(
        name=tool.alias,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=effects.get("read_only"),
            destructive_hint=effects.get("destructive"),
            idempotent_hint=effects.get("idempotent"),
            open_world_hint=effects.get("open_world"),
        ),
    )


def _result(result: Result) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=result.model_text)]
    for part in result.content:
        if part["type"] == "blob" and part["mime_type"].startswith("image/"):
            data = base64.b64encode(part["data"]).decode()
            content.append(types.ImageContent(type="image", data=data, mime_type=part["mime_type"]))
    structured = result.structured if isinstance(result.structured, dict) else None
    return types.CallToolResult(content=content, structured_content=structured, is_error=not result.ok)
