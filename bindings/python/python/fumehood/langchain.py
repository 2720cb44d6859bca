"""The tools of a host for LangChain: ``agent = create_agent(model, fumehood.langchain.tools(host))``. Needs ``langchain-core``."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from ._fumehood import Result, Tool
from .host import Host


def tools(host: Host) -> list[BaseTool]:
    """Returns the tools that are loaded now. A failure of one is a message of status "error" to the model."""
    return [_tool(host, tool) for tool in host.tools()]


def _tool(host: Host, tool: Tool) -> StructuredTool:
    def answer(result: Result) -> tuple[str, Result]:
        if not result.ok:
            raise ToolException(result.model_text)
        return result.model_text, result

    async def call(**arguments: Any) -> tuple[str, Result]:
        return answer(await host.call(tool.name, arguments))

    def call_sync(**arguments: Any) -> tuple[str, Result]:
        return answer(host.call_sync(tool.name, arguments))

    return StructuredTool.from_function(
        func=call_sync,
        coroutine=call,
        name=tool.name,
        description=tool.description or tool.name,
        args_schema=tool.input_schema,
        infer_schema=False,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
