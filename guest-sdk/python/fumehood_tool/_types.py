"""Type hints as JSON Schema, and values between JSON and Python."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from ._documentation import Documentation

NoneType = type(None)

#: Types that JSON has as text, with their format.
_TEXTS: dict[Any, dict[str, Any]] = {
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"},
    pathlib.PurePath: {"type": "string"},
    pathlib.Path: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
}
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    set: {"type": "array", "uniqueItems": True},
    tuple: {"type": "array"},
}
_LISTS = (list, tuple, set, frozenset, Sequence, Iterable, Set)
_MAPPINGS = (dict, Mapping)
#: Names of the members of `annotated-types` and Pydantic's `Field`, and the keywords that they are.
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}


class Schemas:
    """Schemas of hints, with those of classes as shared definitions."""

    def __init__(self) -> None:
        self._definitions: dict[str, Any] = {}
        self._classes: dict[str, Any] = {}

    def definitions(self) -> dict[str, Any]:
        """Returns the member `$defs`, if a schema refers to one."""
        return {"$defs": self._definitions} if self._definitions else {}

    def of(self, hint: Any) -> dict[str, Any]:
        """Returns the schema of a hint, which may be changed."""
        hint = _without_name(hint)
        origin = typing.get_origin(hint)
        arguments = typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if hint is Any:
            return {}
        if hint in _TEXTS or hint in _SIMPLE:
            return dict(_TEXTS.get(hint) or _SIMPLE[hint])
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        if origin is typing.Literal:
            return {"enum": [to_json(value) for value in arguments]}
        if origin in (typing.Required, typing.NotRequired, typing.Final):
            return self.of(arguments[0])
        if origin in _LISTS:
            return self._list(origin, arguments)
        if origin in _MAPPINGS:
            values = self.of(arguments[1])
            return {"type": "object", **({"additionalProperties": values} if values else {})}
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return {"enum": [to_json(member.value) for member in hint]}
        if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or _is_named_tuple(hint)):
            return self._class(hint)
        raise TypeError(
            f"`{hint}` has no JSON Schema; use str, int, float, bool, list[…], dict[str, …], Literal, Enum, a dataclass or a TypedDict"
        )

    def root(self, hint: Any) -> dict[str, Any]:
        """Returns the schema of a whole result. That of a class is in place, because clients of MCP want an object at the top."""
        schema = self.of(hint)
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if name not in self._definitions:
            return schema
        definition = self._definitions[name]
        if f'"#/$defs/{name}"' not in json.dumps(self._definitions):
            del self._definitions[name]
        return {**definition, **{keyword: value for keyword, value in schema.items() if keyword != "$ref"}}

    def default(self, value: Any) -> Any:
        """Returns a default as JSON has it; `None` if it has none."""
        try:
            return to_json(value)
        except TypeError:
            return None

    def _annotated(self, hint: Any, notes: Sequence[Any]) -> dict[str, Any]:
        schema = self.of(hint)
        for note in notes:
            if isinstance(note, str):
                schema["description"] = note
            elif isinstance(note, Mapping):
                schema.update(note)
            else:
                self._constrain(schema, note)
        return schema

    def _constrain(self, schema: dict[str, Any], note: Any) -> None:
        """Adds the constraints of an object of `annotated-types` or of Pydantic's `Field`."""
        for part in [note, *getattr(note, "metadata", ())]:
            for name, keyword in _BOUNDS.items():
                if isinstance(bound := getattr(part, name, None), (int, float)):
                    schema[keyword] = bound
            suffix = "Length" if schema.get("type") == "string" else "Items"
            for name, keyword in (("min_length", f"min{suffix}"), ("max_length", f"max{suffix}")):
                if isinstance(bound := getattr(part, name, None), int):
                    schema[keyword] = bound
            if isinstance(pattern := getattr(part, "pattern", None), str):
                schema["pattern"] = pattern
            if isinstance(description := getattr(part, "description", None), str):
                schema["description"] = description

    def _union(self, arguments: Sequence[Any]) -> dict[str, Any]:
        options = [self.of(argument) for argument in arguments]
        if all(set(option) == {"type"} and isinstance(option["type"], str) for option in options):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}

    def _list(self, origin: Any, arguments: Sequence[Any]) -> dict[str, Any]:
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            items = [self.of(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        items = self.of(arguments[0]) if arguments else {}
        unique = {"uniqueItems": True} if origin in (set, frozenset, Set) else {}
        return {"type": "array", **({"items": items} if items else {}), **unique}

    def _class(self, hint: Any) -> dict[str, Any]:
        name = hint.__name__
        if self._classes.setdefault(name, hint) is not hint:
            name = f"{hint.__module__}.{hint.__qualname__}".replace(".", "_")
            self._classes[name] = hint
        if name not in self._definitions:
            # Before its members, which may refer to it.
            self._definitions[name] = {}
            self._definitions[name] = self._object(hint)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, hint: Any) -> dict[str, Any]:
        properties = {}
        required = []
        # That of a dataclass without a docstring is its signature.
        is_own = hint.__doc__ and not hint.__doc__.startswith((f"{hint.__name__}(", "dict(")) and hint.__doc__ is not dict.__doc__
        documentation = Documentation.parse(inspect.cleandoc(hint.__doc__) if is_own else "")
        for field in fields_of(hint):
            schema = properties[field.name] = self.of(field.hint)
            if described := documentation.parameters.get(field.name):
                schema.setdefault("description", described)
            if field.is_required:
                required.append(field.name)
            elif (default := self.default(field.default)) is not None:
                schema.setdefault("default", default)
        summary = documentation.summary.partition("\n")[0]
        description = {"description": summary} if summary else {}
        return {"type": "object", **description, "properties": properties, "required": required, "additionalProperties": False}


@dataclasses.dataclass(frozen=True)
class Field:
    """A member of a dataclass, a TypedDict or a named tuple."""

    name: str
    hint: Any
    is_required: bool
    #: `None` if there is none.
    default: Any = None


def fields_of(hint: Any) -> list[Field]:
    """Returns the members of a class."""
    hints = typing.get_type_hints(hint, include_extras=True)
    if dataclasses.is_dataclass(hint):
        made = [field for field in dataclasses.fields(hint) if field.init]
        return [
            Field(
                field.name,
                hints[field.name],
                field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
                None if field.default is dataclasses.MISSING else field.default,
            )
            for field in made
        ]
    if _is_named_tuple(hint):
        return [Field(name, hints[name], name not in hint._field_defaults) for name in hint._fields]
    return [Field(name, hints[name], name in hint.__required_keys__) for name in hints]


def _is_named_tuple(hint: type) -> bool:
    return issubclass(hint, tuple) and hasattr(hint, "_field_defaults")


def _without_name(hint: Any) -> Any:
    """Returns the type that `type Name = …` or `NewType` named."""
    while (named := getattr(hint, "__supertype__", None) or _alias_value(hint)) is not None:
        hint = named
    return hint


def _alias_value(hint: Any) -> Any:
    alias = getattr(typing, "TypeAliasType", None)
    return hint.__value__ if alias is not None and isinstance(hint, alias) else None


def from_json(hint: Any, value: Any) -> Any:
    """Converts a value that matches the schema of a hint."""
    hint = _without_name(hint)
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final):
        return from_json(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        return _from_union(arguments, value)
    if origin in _LISTS:
        return _from_list(origin, arguments, value)
    if origin in _MAPPINGS:
        return {key: from_json(arguments[1], one) for key, one in value.items()}
    if hint is float and isinstance(value, int):
        return float(value)
    if hint in (datetime.datetime, datetime.date, datetime.time):
        return hint.fromisoformat(value)
    if hint is bytes:
        return base64.b64decode(value, validate=True)
    if hint in (set, tuple) or hint in _TEXTS:
        return hint(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(member for member in hint if to_json(member.value) == value)
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or _is_named_tuple(hint)):
        hints = {field.name: field.hint for field in fields_of(hint)}
        return hint(**{name: from_json(hints[name], one) for name, one in value.items()})
    if typing.is_typeddict(hint):
        hints = {field.name: field.hint for field in fields_of(hint)}
        return {name: from_json(hints[name], one) for name, one in value.items()}
    return value


def _from_union(options: Sequence[Any], value: Any) -> Any:
    if value is None and NoneType in options:
        return None
    error: Exception | None = None
    for option in options:
        if option is NoneType or not _is_like(option, value):
            continue
        try:
            return from_json(option, value)
        except (TypeError, ValueError, KeyError, StopIteration) as failed:
            error = failed
    if error is not None:
        raise error
    return value


def _is_like(hint: Any, value: Any) -> bool:
    """Returns whether a value can be one of a hint, by its type in JSON."""
    schema = Schemas()
    found = schema.of(hint)
    found = schema._definitions.get(str(found.get("$ref", "")).removeprefix("#/$defs/"), found)
    if "enum" in found:
        return value in found["enum"]
    python: dict[Any, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    wanted = python.get(found.get("type"))
    if wanted is None:
        return True
    if isinstance(value, bool) and wanted is not bool:
        return False
    if isinstance(value, dict):
        properties = found.get("properties")
        return wanted is dict and (properties is None or value.keys() <= properties.keys() and set(found["required"]) <= value.keys())
    return isinstance(value, wanted)


def _from_list(origin: Any, arguments: Sequence[Any], value: Any) -> Any:
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return tuple(from_json(hint, one) for hint, one in zip(arguments, value, strict=True))
    items = [from_json(arguments[0], one) for one in value] if arguments else list(value)
    if origin is tuple:
        return tuple(items)
    return frozenset(items) if origin is frozenset else set(items) if origin in (set, Set) else items


def to_json(value: Any) -> Any:
    """Converts a value to what JSON has. Raises `TypeError` for one that it cannot have."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_json(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(to_json(key)): to_json(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [to_json(one) for one in value]
    if isinstance(value, Set):
        # In the same order for the same members, so that results can be compared.
        return sorted((to_json(one) for one in value), key=json.dumps)
    if callable(dump := getattr(value, "model_dump", None)):
        return to_json(dump(mode="json"))
    raise TypeError(f"a value of the type `{type(value).__name__}` cannot be JSON")
