"""The exports of a component with the tools of a module."""

from __future__ import annotations

import importlib
import json
from typing import Any

import wit_world
from componentize_py_types import Err
from wit_world import exports

try:
    from wit_world.imports import fumehood_tool_types as types
except ImportError:
    from wit_world.imports import types

from ._content import Blob, Link
from ._errors import failure_of
from ._program import report
from ._tool import tools
from ._types import to_json


class WitWorld(wit_world.WitWorld):
    pass


class Tools(exports.Tools):
    def describe(self) -> list[Any]:
        return [_definition(tool) for tool in tools.values()]

    def call(self, request: Any) -> list[Any]:
        try:
            result = tools[request.tool].call(json.loads(request.arguments))
            return _content(result)
        except Exception as error:
            kind, message, retry_after = failure_of(error)
            report(error)
            retry_after_ms = None if retry_after is None else round(retry_after * 1000)
            failure = types.Failure(types.FailureKind[kind.upper()], message, retry_after_ms)
            raise Err(failure) from None


def _definition(tool: Any) -> Any:
    return types.ToolDefinition(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=json.dumps(tool.input_schema),
        output_schema=None if tool.output_schema is None else json.dumps(tool.output_schema),
        annotations=types.Annotations(**tool.annotations),
    )


def _content(result: Any) -> list[Any]:
    if result is None:
        return []
    if isinstance(result, str):
        return [types.Content_Text(result)]
    if isinstance(result, (bytes, bytearray)):
        result = Blob(bytes(result))
    if isinstance(result, Blob):
        return [types.Content_Blob(types.Blob(result.mime_type, result.data))]
    if isinstance(result, Link):
        return [types.Content_Link(types.Link(result.uri, result.title, result.mime_type))]
    if isinstance(result, list) and any(isinstance(part, (Blob, Link)) for part in result):
        return [content for part in result for content in _content(part)]
    return [types.Content_Json(json.dumps(to_json(result), ensure_ascii=False, allow_nan=False))]


def load(module: str) -> None:
    """Imports the module of the tools."""
    importlib.import_module(module)
    if not tools:
        raise RuntimeError(f"the module `{module}` has no tools; put `@tool` before a function")
