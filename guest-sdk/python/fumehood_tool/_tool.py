"""The decorator, and the tools of a module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ._documentation import Documentation
from ._types import Schemas, from_json

F = TypeVar("F", bound=Callable[..., Any])

#: Types of results that have no schema: text, bytes and parts.
UNSTRUCTURED = ("str", "bytes", "Blob", "Link")


@dataclass(frozen=True)
class Tool:
    """A function that a model can call."""

    name: str
    title: str | None
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, bool | None]
    function: Callable[..., Any]
    parameters: dict[str, Any]

    def call(self, arguments: dict[str, Any]) -> Any:
        """Calls the function with arguments as JSON has them. They match the schema."""
        converted = {name: from_json(self.parameters[name], value) for name, value in arguments.items()}
        return self.function(**converted)


#: The tools of the component, by name.
tools: dict[str, Tool] = {}


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> Any:
    """Makes a function a tool. Type hints become the schema, and the docstring describes the tool and its parameters to the model.

    :param name: the name for the model; that of the function by default
    :param read_only: whether the tool changes nothing outside itself
    :param destructive: whether it may remove or overwrite something for good
    :param idempotent: whether a second call with the same arguments has no further effect
    :param open_world: whether it reaches things that its arguments do not name, such as the internet
    """
    annotations = {
        "read_only": read_only,
        "destructive": destructive,
        "idempotent": idempotent,
        "open_world": open_world,
    }

    def register(function: F) -> F:
        made = _make(function, name, title, description, annotations)
        if made.name in tools:
            raise ValueError(f"two tools have the name `{made.name}`; give one of them another with `@tool(name=…)`")
        tools[made.name] = made
        return function

    return register if function is None else register(function)


def _make(
    function: Callable[..., Any],
    name: str | None,
    title: str | None,
    description: str | None,
    annotations: dict[str, bool | None],
) -> Tool:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"`{function.__name__}` is `async def`; a tool is an ordinary function")
    documentation = Documentation.parse(inspect.getdoc(function) or "")
    hints = inspect.get_annotations(function, eval_str=True)
    schemas = Schemas()
    properties: dict[str, Any] = {}
    required = []
    parameters = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"`{function.__name__}`: `{parameter}` cannot be filled by name; write a parameter for each argument")
        if parameter.name not in hints:
            raise TypeError(f"`{function.__name__}`: the parameter `{parameter.name}` has no type; write `{parameter.name}: str`, for example")
        hint = parameters[parameter.name] = hints[parameter.name]
        property = schemas.of(hint)
        if described := documentation.parameters.get(parameter.name):
            property.setdefault("description", described)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif (default := schemas.default(parameter.default)) is not None:
            property["default"] = default
        properties[parameter.name] = property
    unknown = documentation.parameters.keys() - parameters.keys()
    if unknown:
        raise TypeError(f"`{function.__name__}`: the docstring describes `{min(unknown)}`, which is no parameter")
    chosen = name or function.__name__.lower()
    if not re.fullmatch(r"[a-z0-9_-]{1,64}", chosen):
        raise ValueError(f"`{chosen}` cannot be the name of a tool; give it one of up to 64 of a-z, 0-9, _ and - with `@tool(name=…)`")
    input_schema = {"type": "object", "properties": properties, "required": required, **schemas.definitions()}
    return Tool(
        name=chosen,
        title=title,
        description=description or documentation.summary or function.__name__.replace("_", " "),
        input_schema=input_schema,
        output_schema=_output_schema(hints.get("return")),
        annotations=annotations,
        function=function,
        parameters=parameters,
    )


def _output_schema(hint: Any) -> dict[str, Any] | None:
    """Returns the schema of a result; `None` if there is no hint, or it is text or data."""
    if hint in (None, type(None), Any) or getattr(hint, "__name__", None) in UNSTRUCTURED:
        return None
    schemas = Schemas()
    schema = schemas.root(hint)
    return {**schema, **schemas.definitions()} if schema else None
