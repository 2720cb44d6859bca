"""Parts of results that are neither text nor JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blob:
    """Binary data, such as an image."""

    data: bytes
    mime_type: str = "application/octet-stream"


@dataclass(frozen=True)
class Link:
    """A link to a resource outside the result. Nothing fetches it."""

    uri: str
    title: str | None = None
    mime_type: str | None = None
