"""The tools of a host for LangChain: ``agent = create_agent(model, fumehood.langchain.tools(host))``. Needs ``langchain-core``."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from ._fumehood import Result, Tool
from .host import Host


def tools(host: Host) -> list[BaseTool]:
    """Returns the tools that are loaded now. A failure of one is a message of status "error" to the model."""
    return [_HostTool(host, tool) for tool in host.tools()]


class _HostTool(BaseTool):
    """A tool whose arguments may have any names.

    LangChain passes arguments as keywords, and has some of its own: a `config` of the model would be replaced by that of the run, and
    `self` would be an error. So all arguments travel as one, `arguments`.
    """

    _host: Host = PrivateAttr()

    def __init__(self, host: Host, tool: Tool) -> None:
        # LangChain looks for the member even where there are no properties.
        schema = {"properties": {}, **tool.input_schema}
        super().__init__(
            name=tool.alias,
            description=tool.description or tool.name,
            args_schema=schema,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        self._host = host

    def run(self, tool_input: str | dict[str, Any], *args: Any, **options: Any) -> Any:
        return super().run({"arguments": tool_input}, *args, **options)

    async def arun(self, tool_input: str | dict[str, Any], *args: Any, **options: Any) -> Any:
        return await super().arun({"arguments": tool_input}, *args, **options)

    def _run(self, arguments: str | dict[str, Any]) -> tuple[str, Result]:
        return _answer(self._host.call_sync(self.name, arguments))

    async def _arun(self, arguments: str | dict[str, Any]) -> tuple[str, Result]:
        return _answer(await self._host.call(self.name, arguments))


def _answer(result: Result) -> tuple[str, Result]:
    if not result.ok:
        raise ToolException(result.model_text)
    return result.model_text, result
