"""The tools of a host for LlamaIndex: ``FunctionAgent(tools=fumehood.llama_index.tools(host), …)``. Needs ``llama-index-core``."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from ._fumehood import Result, Tool
from .host import Host


def tools(host: Host) -> list[AsyncBaseTool]:
    """Returns the tools that are loaded now. A failure of one is an output with `is_error`, which the model reads."""
    return [_HostTool(host, tool) for tool in host.tools()]


class _HostMetadata(ToolMetadata):
    """A definition with the JSON Schema of the tool. LlamaIndex would make one from a class of Pydantic."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(description=tool.description or tool.name, name=tool.alias, fn_schema=None)
        # LlamaIndex looks for the member even where there are no properties.
        self._schema = {"properties": {}, **tool.input_schema}

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._schema

    @property
    def fn_schema_str(self) -> str:
        return json.dumps(self._schema, ensure_ascii=False)


class _HostTool(AsyncBaseTool):
    """A tool whose arguments may have any names, also `self`.

    LlamaIndex first passes a single argument by position. The methods refuse that, after which it passes the argument by its name.
    """

    def __init__(self, host: Host, tool: Tool) -> None:
        self._host = host
        self._metadata = _HostMetadata(tool)

    @property
    def metadata(self) -> ToolMetadata:
        return self._metadata

    def __call__(self, /, **arguments: Any) -> ToolOutput:  # type: ignore[override]
        return self.call(**arguments)

    def call(self, /, **arguments: Any) -> ToolOutput:  # type: ignore[override]
        return self._output(self._host.call_sync(self._metadata.get_name(), arguments), arguments)

    async def acall(self, /, **arguments: Any) -> ToolOutput:  # type: ignore[override]
        return self._output(await self._host.call(self._metadata.get_name(), arguments), arguments)

    def _output(self, result: Result, arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput(
            content=result.model_text,
            tool_name=self._metadata.get_name(),
            raw_input=arguments,
            # The context of a workflow is saved as JSON, with its outputs.
            raw_output=json.loads(result.to_json()),
            is_error=not result.ok,
        )
