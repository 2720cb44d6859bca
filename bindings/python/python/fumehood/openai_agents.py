"""The tools of a host for the OpenAI Agents SDK: ``Agent(tools=fumehood.openai_agents.tools(host))``. Needs ``openai-agents``."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool
from agents import Tool as AgentTool
from agents.tool_context import ToolContext

from ._fumehood import Tool
from .host import Host


def tools(host: Host) -> list[AgentTool]:
    """Returns the tools that are loaded now. A failure of one is a result that the model reads."""
    return [_tool(host, tool) for tool in host.tools()]


def _tool(host: Host, tool: Tool) -> FunctionTool:
    async def call(_: ToolContext[Any], arguments: str) -> str:
        # The text that the model wrote: the host parses it strictly.
        return (await host.call(tool.name, arguments or "{}")).model_text

    return FunctionTool(
        name=tool.alias,
        description=tool.description,
        params_json_schema=tool.input_schema,
        on_invoke_tool=call,
        # The strict mode of OpenAI takes a part of JSON Schema only.
        strict_json_schema=False,
    )
