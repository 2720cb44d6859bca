"""Hooks: functions of an operator that decide on calls of tools, before they run and after.

>>> from fumehood_tool.hooks import Ask, Call, Deny, authorize, before
>>>
>>> @authorize
... def members_only(call: Call):
...     '''Refuses guests.'''
...     if call.actor is None:
...         return Deny("guests may not call tools")
>>>
>>> @before
... def careful(call: Call):
...     '''Asks a person about calls that may change something.'''
...     if not call.annotations.read_only:
...         return Ask(f"May `{call.tool}` run?")

A function that returns `None` lets the call or its result pass. An exception refuses the call, or withholds the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

from ._content import Blob, Link

__all__ = [
    "Allow",
    "Annotations",
    "Ask",
    "Blob",
    "Call",
    "Content",
    "Deny",
    "Failure",
    "Json",
    "Keep",
    "Link",
    "Modify",
    "Reject",
    "Replace",
    "Text",
    "after",
    "authorize",
    "before",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Annotations:
    """Claims of a tool about its own behaviour. They are no basis for trust."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True)
class Call:
    """A call of a tool. Its arguments match the schema of the tool."""

    #: The full name, `component__tool`.
    tool: str
    #: After the call, those that the tool ran with.
    arguments: dict[str, Any] = field(default_factory=dict)
    #: The actor on whose behalf the call runs; `None` for a guest.
    actor: str | None = None
    #: The id of the agent's session that makes the call.
    session: str | None = None
    #: The name and version that a client of a server claims.
    client: str | None = None
    annotations: Annotations = Annotations()
    #: The time of day, in seconds since 1970.
    time: float = 0.0
    #: The id of the call. May be empty.
    id: str = ""


@dataclass(frozen=True)
class Text:
    """A part of a result: text."""

    text: str


@dataclass(frozen=True)
class Json:
    """A part of a result: a value of JSON."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """A failed call. A hook cannot change its kind."""

    kind: str
    message: str


Content = Union[Text, Json, Blob, Link]


@dataclass(frozen=True)
class Allow:
    """Lets the call run."""


@dataclass(frozen=True)
class Deny:
    """Refuses the call. The caller sees the reason."""

    reason: str


@dataclass(frozen=True)
class Ask:
    """Asks a person, who sees the question, the tool and its arguments."""

    question: str


@dataclass(frozen=True)
class Modify:
    """Lets the call run with other arguments, which match the schema of the tool too."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class Keep:
    """Passes the result on as it is."""


@dataclass(frozen=True)
class Replace:
    """Passes this on in place of the result."""

    result: list[Content] | Failure


@dataclass(frozen=True)
class Reject:
    """Withholds the result. The caller sees the reason."""

    reason: str


#: The functions of the component, by their moment.
functions: dict[str, Callable[..., Any]] = {}


def authorize(function: F, /) -> F:
    """Makes a function decide whether the actor may make a call. It returns `Allow`, `Deny` or `None`."""
    return _register("authorize", function)


def before(function: F, /) -> F:
    """Makes a function decide on a call before it runs. It returns `Allow`, `Modify`, `Deny`, `Ask` or `None`."""
    return _register("before", function)


def after(function: F, /) -> F:
    """Makes a function decide on a result: a list of `Content`, or a `Failure`. It returns `Keep`, `Replace`, `Reject` or `None`."""
    return _register("after", function)


def _register(moment: str, function: F) -> F:
    if moment in functions:
        raise ValueError(f"two functions have `@{moment}`; write one that calls both")
    functions[moment] = function
    return function
