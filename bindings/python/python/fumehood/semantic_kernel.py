"""The tools of a host for Semantic Kernel: ``kernel.add_plugin(fumehood.semantic_kernel.plugin(host))``. Needs ``semantic-kernel``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from pydantic import PrivateAttr
from semantic_kernel.filters import FunctionInvocationContext
from semantic_kernel.functions import (
    FunctionResult,
    KernelFunction,
    KernelFunctionMetadata,
    KernelParameterMetadata,
    KernelPlugin,
)

from ._fumehood import Tool
from .host import Host

# Models see `PLUGIN-FUNCTION`, and providers refuse longer names.
MAX_NAME_CHARS = 64
# The one parameter of tools whose schema is more than a list of parameters.
WHOLE = "arguments"
# Semantic Kernel takes these for itself before it calls a function.
_RESERVED = {"self", "settings"}
_PARAMETER_NAME = re.compile(r"[0-9A-Za-z_-]+")
# What a list of parameters can express, and what says nothing about arguments.
_LIST_KEYWORDS = {"$schema", "additionalProperties", "description", "properties", "required", "title", "type"}


def plugin(host: Host, name: str = "fumehood") -> KernelPlugin:
    """Returns a plugin of the tools that are loaded now. A failure of one is a result that the model reads.

    Semantic Kernel has a list of parameters in place of a schema. A tool whose schema is more than such a list has one parameter,
    `arguments`, with the whole schema.
    """
    return KernelPlugin(name=name, functions=[_HostFunction(host, tool, name) for tool in host.tools()])


class _HostFunction(KernelFunction):
    """A tool. It gets only arguments that it has declared: those of a kernel can have others, for templates of prompts."""

    _host: Host = PrivateAttr()
    _alias: str = PrivateAttr()
    _is_whole: bool = PrivateAttr()

    def __init__(self, host: Host, tool: Tool, plugin: str) -> None:
        is_whole = not _is_list_of_parameters(tool.input_schema)
        metadata = KernelFunctionMetadata(
            name=_function_name(tool.alias, MAX_NAME_CHARS - len(plugin) - 1),
            plugin_name=plugin,
            description=tool.description or tool.name,
            parameters=[_whole(tool.input_schema)] if is_whole else _parameters(tool.input_schema),
            is_prompt=False,
        )
        super().__init__(metadata=metadata)
        self._host = host
        self._alias = tool.alias
        self._is_whole = is_whole

    async def _invoke_internal(self, context: FunctionInvocationContext) -> None:
        result = await self._host.call(self._alias, self._arguments(context.arguments))
        context.result = FunctionResult(function=self.metadata, value=result.model_text)

    async def _invoke_internal_stream(self, context: FunctionInvocationContext) -> None:
        await self._invoke_internal(context)

    def _arguments(self, arguments: Mapping[str, Any]) -> Any:
        if self._is_whole:
            return arguments.get(WHOLE)
        names = {parameter.name for parameter in self.parameters}
        return {name: value for name, value in arguments.items() if name in names}


def _function_name(alias: str, max_chars: int) -> str:
    """Shortens an alias, with a digest so that no two of them become one name."""
    if len(alias) <= max_chars:
        return alias
    digest = hashlib.sha256(alias.encode()).hexdigest()[:8]
    return f"{alias[: max_chars - len(digest) - 1]}_{digest}"


def _is_list_of_parameters(schema: Mapping[str, Any]) -> bool:
    names = schema.get("properties", {}).keys()
    if not names:
        return schema.get("additionalProperties") is False
    return (
        schema.keys() <= _LIST_KEYWORDS
        and schema.get("additionalProperties", False) is False
        and names.isdisjoint(_RESERVED)
        and names >= set(schema.get("required", []))
        and all(_PARAMETER_NAME.fullmatch(name) for name in names)
    )


def _parameters(schema: Mapping[str, Any]) -> list[KernelParameterMetadata]:
    required = schema.get("required", [])
    return [
        _parameter(name, part if isinstance(part, dict) else {}, name in required)
        for name, part in schema.get("properties", {}).items()
    ]


def _whole(schema: dict[str, Any]) -> KernelParameterMetadata:
    return _parameter(WHOLE, _rebased(schema), bool(schema.get("required")))


def _parameter(name: str, schema: dict[str, Any], is_required: bool) -> KernelParameterMetadata:
    description = schema.get("description")
    return KernelParameterMetadata(
        name=name,
        description=description if isinstance(description, str) else None,
        is_required=is_required,
        schema_data=schema,
    )


def _rebased(schema: Any) -> Any:
    """Makes references to the root of a schema point to where the schema is now: at the parameter."""
    if isinstance(schema, list):
        return [_rebased(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rebased = {keyword: _rebased(part) for keyword, part in schema.items()}
    reference = rebased.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        rebased["$ref"] = f"#/properties/{WHOLE}{reference[1:]}"
    return rebased
