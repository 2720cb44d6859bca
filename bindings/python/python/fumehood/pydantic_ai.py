"""The tools of a host for Pydantic AI: ``Agent(model, tools=fumehood.pydantic_ai.tools(host))``. Needs ``pydantic-ai-slim``."""

from __future__ import annotations

from typing import Any

from pydantic_ai import ModelRetry, RunContext
from pydantic_ai import Tool as AgentTool

from ._fumehood import Tool
from .host import Host


def tools(host: Host, *, max_retries: int = 5) -> list[AgentTool[Any]]:
    """Returns the tools that are loaded now.

    Arguments that the host refuses are for the model to correct, `max_retries` times in a row. Other failures are results, and so are the
    refusals of a tool itself: an answer of a tool cannot end the run.
    """
    return [_tool(host, tool, max_retries) for tool in host.tools()]


def _tool(host: Host, tool: Tool, max_retries: int) -> AgentTool[Any]:
    async def call(context: RunContext[Any], /, **arguments: Any) -> str:
        result = await host.call(tool.name, arguments)
        is_refused = result.error is not None and result.error.kind == "invalid_arguments" and not result.ran
        # One retry more than allowed would end the run.
        if is_refused and not context.last_attempt:
            raise ModelRetry(result.model_text)
        return result.model_text

    adapted = AgentTool[Any].from_schema(call, tool.alias, tool.description, tool.input_schema, takes_ctx=True)
    adapted.max_retries = max_retries
    return adapted
