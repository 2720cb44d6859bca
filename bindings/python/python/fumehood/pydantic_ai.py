"""The tools of a host for Pydantic AI: ``Agent(model, tools=fumehood.pydantic_ai.tools(host))``. Needs ``pydantic-ai-slim``."""

from __future__ import annotations

from typing import Any

from pydantic_ai import ModelRetry
from pydantic_ai import Tool as AgentTool

from ._fumehood import Tool
from .host import Host


def tools(host: Host) -> list[AgentTool[Any]]:
    """Returns the tools that are loaded now. Arguments that a tool refuses are for the model to correct; other failures are results."""
    return [_tool(host, tool) for tool in host.tools()]


def _tool(host: Host, tool: Tool) -> AgentTool[Any]:
    async def call(**arguments: Any) -> Any:
        result = await host.call(tool.name, arguments)
        if result.error is not None and result.error.kind == "invalid_arguments":
            raise ModelRetry(str(result.error))
        return result.model_text

    return AgentTool.from_schema(call, tool.name, tool.description, tool.input_schema)
