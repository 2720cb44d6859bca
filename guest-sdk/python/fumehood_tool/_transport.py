"""One request over `wasi:http`; outside a component, over Python's own client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

try:
    from wit_world.imports import outgoing_handler, streams
    from wit_world.imports import wasi_http_types as wasi
except ImportError:
    outgoing_handler = streams = wasi = None
try:
    import wit_world

    IS_COMPONENT = True
except ImportError:
    IS_COMPONENT = False

#: Maximum size of one part of a body, in bytes.
CHUNK_BYTES = 64 << 10
#: The part of a body that one call to the host takes, in bytes.
WRITE_BYTES = 4096

Answer = tuple[int, list[tuple[str, str]], Iterator[bytes]]


def send(method: str, url: str, headers: Mapping[str, str], body: bytes, timeout: float | None) -> Answer:
    """Sends a request, and returns status, headers and body of the response."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"`{url}` is no address of HTTP; it begins with https:// or http://")
    if wasi is not None:
        return _send_from_component(method, url, headers, body, timeout)
    if IS_COMPONENT:
        raise _error("this tool was built without HTTP; set `http = true` in [tool.fumehood] of pyproject.toml", "failed")
    return _send_directly(method, url, headers, body, timeout)


def _error(message: str, kind: str) -> Exception:
    from .http import RequestError

    return RequestError(message, kind)  # type: ignore[arg-type]


def _send_from_component(method: str, url: str, headers: Mapping[str, str], body: bytes, timeout: float | None) -> Answer:
    from componentize_py_types import Err

    parts = urlsplit(url)
    fields = [(name, value.encode("latin-1")) for name, value in headers.items()]
    if body or method in ("POST", "PUT", "PATCH"):
        fields.append(("content-length", str(len(body)).encode()))
    try:
        request_headers = wasi.Fields.from_list(fields)
    except Err as error:
        raise ValueError(f"a header of the request to {url} is invalid or not allowed: {_name(error.value)}") from None
    try:
        request = wasi.OutgoingRequest(request_headers)
        request.set_method(getattr(wasi, f"Method_{method.capitalize()}", lambda: wasi.Method_Other(method))())
        request.set_scheme(wasi.Scheme_Https() if parts.scheme == "https" else wasi.Scheme_Http())
        host = parts.netloc.rpartition("@")[2]
        request.set_authority(host if host.isascii() else _ascii_host(parts))
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
        request.set_path_with_query(path + (f"?{query}" if parts.query else ""))
    except Err:
        raise ValueError(f"`{method} {url}` is no valid method and address") from None
    options = wasi.RequestOptions()
    if timeout is not None:
        nanoseconds = round(timeout * 1e9)
        options.set_connect_timeout(nanoseconds)
        options.set_first_byte_timeout(nanoseconds)
        options.set_between_bytes_timeout(nanoseconds)
    try:
        outgoing = request.body()
        future = outgoing_handler.handle(request, options)
        _write(outgoing, body)
        response = _wait(future)
        received = [(name, bytes(value).decode("latin-1")) for name, value in response.headers().entries()]
        return response.status(), received, _read(response, url)
    except Err as error:
        raise _failure(url, error.value) from None


def _ascii_host(parts: Any) -> str:
    host = parts.hostname.encode("idna").decode()
    return host if parts.port is None else f"{host}:{parts.port}"


def _write(outgoing: Any, body: bytes) -> None:
    if body:
        stream = outgoing.write()
        with stream:
            for start in range(0, len(body), WRITE_BYTES):
                stream.blocking_write_and_flush(body[start : start + WRITE_BYTES])
    wasi.OutgoingBody.finish(outgoing, None)


def _wait(future: Any) -> Any:
    from componentize_py_types import Err

    with future.subscribe() as ready:
        ready.block()
    outer = future.get()
    # Ok and Err of two results, one in the other.
    inner = outer.value if hasattr(outer, "value") else outer
    if isinstance(inner, Err):
        raise inner
    return inner.value if hasattr(inner, "value") else inner


def _read(response: Any, url: str) -> Iterator[bytes]:
    from componentize_py_types import Err

    body = response.consume()
    with body, body.stream() as stream:
        while True:
            try:
                chunk = stream.blocking_read(CHUNK_BYTES)
            except Err as error:
                if isinstance(error.value, streams.StreamError_Closed):
                    return
                cause = wasi.http_error_code(error.value.value)
                raise _failure(url, cause or error.value) from None
            if chunk:
                yield bytes(chunk)


def _failure(url: str, code: Any) -> Exception:
    """Returns the exception of an error code."""
    name = _name(code)
    detail = getattr(code, "value", None)
    said = f": {detail}" if isinstance(detail, str) else ""
    host = urlsplit(url).netloc
    if name == "HTTP request denied":
        return _error(f"the request to {host} was refused; the operator can grant `http`{said}", "denied")
    if name == "destination IP prohibited":
        return _error(f"the address of {host} is one of an inner network, which tools may not reach", "denied")
    if "timeout" in name:
        return _error(f"{host} did not answer in time ({name})", "unavailable")
    return _error(f"the request to {host} failed: {name}{said}", "unavailable")


def _name(code: Any) -> str:
    """Returns the words of a case of a variant: `ErrorCode_ConnectionRefused` becomes `connection refused`."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z]|$)|[A-Z][a-z]+", type(code).__name__.partition("_")[2] or str(code))
    return " ".join(word if word in ("HTTP", "IP", "DNS", "TLS", "URI") else _word(word) for word in words)


def _word(word: str) -> str:
    return {"Http": "HTTP", "Ip": "IP", "Dns": "DNS", "Tls": "TLS", "Uri": "URI"}.get(word, word.lower())


def _send_directly(method: str, url: str, headers: Mapping[str, str], body: bytes, timeout: float | None) -> Answer:
    import http.client

    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc.rpartition("@")[2], timeout=timeout)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body or None, dict(headers))
        response = connection.getresponse()
        return response.status, response.getheaders(), iter([response.read()])
    except (OSError, http.client.HTTPException) as error:
        raise _error(f"the request to {parts.netloc} failed: {error}", "unavailable") from None
    finally:
        connection.close()
