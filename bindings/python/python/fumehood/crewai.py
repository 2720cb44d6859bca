"""The tools of a host for CrewAI: ``Agent(tools=fumehood.crewai.tools(host), …)``. Needs ``crewai``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from pydantic import BaseModel, ConfigDict, PrivateAttr

from ._fumehood import Result, Tool
from .host import Host


def tools(host: Host) -> list[BaseTool]:
    """Returns the tools that are loaded now. A failure of one is a `ToolFailure`, whose message the model reads."""
    return [_HostTool(host, tool) for tool in host.tools()]


class _HostTool(BaseTool):
    """A tool whose arguments may have any names, also `self`, and are only judged by the host."""

    _host: Host = PrivateAttr()
    _left_out: frozenset[str] = PrivateAttr()

    def __init__(self, host: Host, tool: Tool) -> None:
        super().__init__(
            name=tool.alias,
            description=tool.description or tool.name,
            args_schema=_arguments_class(tool),
            cache_function=_is_never_cached,
        )
        self._host = host
        self._left_out = _may_be_left_out(tool.input_schema)

    def run(self, /, **arguments: Any) -> Any:
        return self._claim_usage() or self._run(**arguments)

    async def arun(self, /, **arguments: Any) -> Any:
        return self._claim_usage() or await self._arun(**arguments)

    def _run(self, /, **arguments: Any) -> str | ToolFailure:
        return _answer(self._host.call_sync(self.name, self._given(arguments)))

    async def _arun(self, /, **arguments: Any) -> str | ToolFailure:
        return _answer(await self._host.call(self.name, self._given(arguments)))

    def _given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Leaves out each `null` of an optional argument that cannot be one: CrewAI tells models that all arguments are required."""
        return {name: value for name, value in arguments.items() if value is not None or name not in self._left_out}


def _arguments_class(tool: Tool) -> type[BaseModel]:
    """Returns a class of any arguments that has the JSON Schema of the tool, because CrewAI takes a schema as a class only."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return tool.input_schema

    return Arguments


def _may_be_left_out(schema: Mapping[str, Any]) -> frozenset[str]:
    """Returns the optional properties whose type is not `null`."""
    required = schema.get("required", [])
    types = {name: part.get("type") for name, part in schema.get("properties", {}).items() if isinstance(part, dict)}
    return frozenset(name for name, type in types.items() if type and name not in required and "null" not in type)


def _is_never_cached(_arguments: Any = None, _result: Any = None) -> bool:
    """Makes every call of a model a call: by default CrewAI repeats what a tool said of the same arguments before."""
    return False


def _answer(result: Result) -> str | ToolFailure:
    if result.error is None:
        return result.model_text
    is_refused = result.error.kind == "invalid_arguments" and not result.ran
    return ToolFailure(
        message=result.model_text,
        reason=ToolFailureReason.INVALID_INPUT if is_refused else ToolFailureReason.TOOL_REPORTED,
        retryable=result.error.retry_after is not None,
    )
