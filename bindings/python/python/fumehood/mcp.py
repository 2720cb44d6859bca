"""The tools of a host as a server of the Python MCP SDK: ``fumehood.mcp.server(host)``. Needs ``mcp`` 2 or newer."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server

from ._fumehood import VERSION, Result, Tool
from .host import Host


def server(host: Host, name: str = "fumehood") -> Server[Any]:
    """Returns a server of the tools that are loaded whenever a client asks. A failure of one is a result with `isError`."""

    async def list_tools(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(tool) for tool in host.tools()])

    async def call_tool(_: ServerRequestContext[Any], call: types.CallToolRequestParams) -> types.CallToolResult:
        return _result(await host.call(call.name, call.arguments or {}))

    return Server(name, version=VERSION, on_list_tools=list_tools, on_call_tool=call_tool)


def _definition(tool: Tool) -> types.Tool:
    effects = tool.annotations
    return types.Tool(
        name=tool.name,
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
