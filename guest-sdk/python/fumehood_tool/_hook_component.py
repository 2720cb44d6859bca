"""The exports of a component with hooks."""

from __future__ import annotations

import importlib
import json
from base64 import b64decode, b64encode
from typing import Any

import wit_world
from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.exports import hook as types

from . import hooks
from ._program import report


class WitWorld(wit_world.WitWorld):
    pass


class Hook(exports.Hook):
    def authorize(self, call: Any) -> Any:
        decision = _decide("authorize", _call(call))
        match decision:
            case None | hooks.Allow():
                return types.Authorization_Allow()
            case hooks.Deny(reason):
                return types.Authorization_Deny(reason)
        raise _wrong("authorize", decision, "Allow, Deny or None")

    def before(self, call: Any) -> Any:
        decision = _decide("before", _call(call))
        match decision:
            case None | hooks.Allow():
                return types.BeforeDecision_Allow()
            case hooks.Modify(arguments):
                return types.BeforeDecision_Modify(json.dumps(arguments, ensure_ascii=False))
            case hooks.Deny(reason):
                return types.BeforeDecision_Deny(reason)
            case hooks.Ask(question):
                return types.BeforeDecision_Ask(question)
        raise _wrong("before", decision, "Allow, Modify, Deny, Ask or None")

    def after(self, call: Any, outcome: Any) -> Any:
        decision = _decide("after", _call(call), _result(outcome))
        match decision:
            case None | hooks.Keep():
                return types.AfterDecision_Keep()
            case hooks.Replace(hooks.Failure(kind, message)):
                return types.AfterDecision_Replace(Err(types.Failure(kind, message)))
            case hooks.Replace(parts):
                return types.AfterDecision_Replace(Ok([_part(part) for part in parts]))
            case hooks.Reject(reason):
                return types.AfterDecision_Reject(reason)
        raise _wrong("after", decision, "Keep, Replace, Reject or None")


def _decide(moment: str, *arguments: Any) -> Any:
    function = hooks.functions.get(moment)
    try:
        return function and function(*arguments)
    except Exception as error:
        report(error)
        raise


def _wrong(moment: str, decision: Any, expected: str) -> TypeError:
    error = TypeError(f"the function with `@{moment}` returned {decision!r}; expected {expected}")
    report(error)
    return error


def _call(call: Any) -> hooks.Call:
    claims = call.annotations
    return hooks.Call(
        tool=call.tool,
        arguments=json.loads(call.arguments),
        actor=call.actor,
        session=call.session,
        client=call.client,
        annotations=hooks.Annotations(claims.read_only, claims.destructive, claims.idempotent, claims.open_world),
        time=call.time_ms / 1000,
        id=call.id,
    )


def _result(outcome: Any) -> list[hooks.Content] | hooks.Failure:
    if isinstance(outcome, Err):
        return hooks.Failure(outcome.value.kind, outcome.value.message)
    return [_content(part) for part in outcome.value]


def _content(part: Any) -> hooks.Content:
    if isinstance(part, types.Content_Text):
        return hooks.Text(part.value)
    if isinstance(part, types.Content_Json):
        return hooks.Json(json.loads(part.value))
    if isinstance(part, types.Content_Blob):
        return hooks.Blob(b64decode(part.value.data), part.value.mime_type)
    link = part.value
    return hooks.Link(link.uri, link.title, link.mime_type)


def _part(part: hooks.Content) -> Any:
    match part:
        case hooks.Text(text):
            return types.Content_Text(text)
        case hooks.Json(value):
            return types.Content_Json(json.dumps(value, ensure_ascii=False, allow_nan=False))
        case hooks.Blob():
            return types.Content_Blob(types.Blob(part.mime_type, b64encode(part.data).decode()))
        case hooks.Link():
            return types.Content_Link(types.Link(part.uri, part.title, part.mime_type))
    raise _wrong("after", part, "Text, Json, Blob or Link in a result")


def load(module: str) -> None:
    """Imports the module of the hooks."""
    importlib.import_module(module)
    if not hooks.functions:
        raise RuntimeError(f"the module `{module}` has no hooks; put `@authorize`, `@before` or `@after` before a function")
