"""Failures of tools."""

from __future__ import annotations

from typing import Literal

Kind = Literal["failed", "invalid_arguments", "unavailable", "denied"]


class ToolError(Exception):
    """A failure with a message for the model, which says what is wrong and what to do.

    :param kind: ``invalid_arguments`` if other arguments may work, ``unavailable`` if the same call may work later, ``denied`` if the tool
        lacks a grant, else ``failed``
    :param retry_after: the seconds after which the same call is worth a try
    """

    def __init__(self, message: str, kind: Kind = "failed", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after


def failure_of(error: BaseException) -> tuple[Kind, str, float | None]:
    """Returns the kind of an exception, its message for the model, and the seconds until a retry."""
    if isinstance(error, ToolError):
        return error.kind, str(error), error.retry_after
    message = str(error) or type(error).__name__
    if isinstance(error, PermissionError):
        return "denied", message, None
    if isinstance(error, (ConnectionError, TimeoutError)):
        return "unavailable", message, None
    return "failed", f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, None
