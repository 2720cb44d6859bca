"""`urllib.request` over the same way as `fumehood_tool.http`, so that clients of APIs that use it work in a component."""

from __future__ import annotations

import io
from typing import Any

from . import _transport


def install() -> None:
    """Makes `urllib.request.urlopen` send its requests through the host."""
    import urllib.error
    import urllib.request
    from email.message import Message
    from urllib.response import addinfourl

    from .http import RequestError

    class HostHandler(urllib.request.BaseHandler):
        """Opens http and https addresses."""

        def http_open(self, request: Any) -> Any:
            data = request.data
            if data is not None and not isinstance(data, bytes):
                data = data.read() if hasattr(data, "read") else b"".join(data)
            headers = {name.lower(): value for name, value in request.header_items() if name.lower() not in ("host", "content-length")}
            timeout = request.timeout if isinstance(request.timeout, (int, float)) else None
            try:
                status, received, body = _transport.send(request.get_method(), request.full_url, headers, data or b"", timeout)
                content = b"".join(body)
            except RequestError as error:
                raise urllib.error.URLError(error) from None
            message = Message()
            for name, value in received:
                message[name] = value
            response = addinfourl(io.BytesIO(content), message, request.full_url, status)
            response.msg = _reason(status)  # type: ignore[attr-defined]
            return response

        https_open = http_open
        http_request = urllib.request.HTTPHandler.do_request_
        https_request = http_request

    opener = urllib.request.OpenerDirector()
    for handler in (
        HostHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.DataHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    urllib.request.install_opener(opener)


def _reason(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
