"""HTTP requests, as far as the operator grants them: ``http.get("https://api.example.com/v1/cities", params={"q": "Bonn"}).json()``.

The grant `http` names methods and addresses. The host adds secrets to requests, resolves names, and refuses addresses of inner networks.
"""

from __future__ import annotations

import json as _json
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any
from urllib.parse import urlencode, urlsplit

from . import _transport
from ._errors import ToolError

#: Maximum number of redirects.
MAX_REDIRECTS = 10
#: The time for the beginning of a response, and between two parts of it, in seconds. The deadline of the call counts too.
DEFAULT_TIMEOUT = 30.0

Params = Mapping[str, Any]


class RequestError(ToolError):
    """A request without a response: it was refused, or the server cannot be reached."""


class StatusError(ToolError):
    """A response with an error status."""

    def __init__(self, response: Response) -> None:
        retry_after = response.headers.get("retry-after", "")
        seconds = float(retry_after) if retry_after.isdecimal() else None
        is_transient = response.status in (408, 425, 429, 500, 502, 503, 504)
        message = f"{response.request_method} {response.url} returned {response.status}: {response.text[:500]}"
        super().__init__(message, "unavailable" if is_transient else "failed", retry_after=seconds)
        self.response = response


class Response:
    """A response. Its body is read when a part of it is first asked for."""

    def __init__(self, method: str, url: str, status: int, headers: list[tuple[str, str]], body: Iterator[bytes]) -> None:
        self.request_method = method
        #: The address, after redirects.
        self.url = url
        self.status = status
        #: The headers, whatever the case of their names.
        self.headers = Message()
        for name, value in headers:
            self.headers[name] = value
        self._body = body
        self._content: bytes | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400

    @property
    def content(self) -> bytes:
        """The whole body."""
        if self._content is None:
            self._content = b"".join(self._body)
        return self._content

    @property
    def text(self) -> str:
        """The body as text, by the charset of its type."""
        charset = self.headers.get_content_charset("utf-8")
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The value of a JSON body."""
        try:
            return _json.loads(self.content)
        except ValueError as error:
            raise ToolError(f"{self.url} returned no JSON ({error}): {self.text[:200]}") from None

    def iter_bytes(self) -> Iterator[bytes]:
        """Yields the body in parts, as they come, unless it was read."""
        if self._content is not None:
            yield self._content
            return
        yield from self._body

    def raise_for_status(self) -> Response:
        """Raises `StatusError` if the status is 400 or above, and returns the response otherwise."""
        if not self.ok:
            raise StatusError(self)
        return self

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.url}>"


def request(
    method: str,
    url: str,
    *,
    params: Params | None = None,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    data: bytes | str | Params | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    follow_redirects: bool = True,
) -> Response:
    """Sends a request, and returns the response, whatever its status.

    :param params: members of the query; lists become several, and those that are `None` are left out
    :param json: a value that is sent as JSON
    :param data: a body, or the fields of a form
    :param timeout: seconds for the beginning of the response, and between two parts of it
    :raises RequestError: if there is no response
    """
    method = method.upper()
    sent = {"accept": "*/*", **{name.lower(): value for name, value in (headers or {}).items()}}
    body = b""
    if json is not None:
        sent.setdefault("content-type", "application/json")
        body = _json.dumps(json).encode()
    elif isinstance(data, Mapping):
        sent.setdefault("content-type", "application/x-www-form-urlencoded")
        body = _encode(data).encode()
    elif data is not None:
        body = data.encode() if isinstance(data, str) else bytes(data)
    if params:
        url += ("&" if urlsplit(url).query else "?") + _encode(params)
    for _ in range(MAX_REDIRECTS + 1):
        response = Response(method, url, *_transport.send(method, url, sent, body, timeout))
        target = response.headers.get("location") if follow_redirects else None
        if response.status not in (301, 302, 303, 307, 308) or not target:
            return response
        method, url, sent, body = _redirect(response, target, sent, body)
    raise RequestError(f"{url} redirects more than {MAX_REDIRECTS} times")


def _redirect(response: Response, target: str, sent: dict[str, str], body: bytes) -> tuple[str, str, dict[str, str], bytes]:
    from urllib.parse import urljoin

    url = urljoin(response.url, target)
    method = response.request_method
    if response.status == 303 or response.status in (301, 302) and method == "POST":
        # RFC 9110, section 15.4.
        method, body = ("HEAD" if method == "HEAD" else "GET"), b""
        sent = {name: value for name, value in sent.items() if not name.startswith("content-")}
    if urlsplit(url)[:2] != urlsplit(response.url)[:2]:
        sent = {name: value for name, value in sent.items() if name not in ("authorization", "cookie")}
    return method, url, sent, body


def _encode(params: Params) -> str:
    return urlencode({name: value for name, value in params.items() if value is not None}, doseq=True)


def get(url: str, **options: Any) -> Response:
    """Sends a GET request: see `request`."""
    return request("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """Sends a POST request: see `request`."""
    return request("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    """Sends a PUT request: see `request`."""
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> Response:
    """Sends a PATCH request: see `request`."""
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> Response:
    """Sends a DELETE request: see `request`."""
    return request("DELETE", url, **options)
