"""Options of a host and of its components. This file is written by `cargo test -p fumehood-config`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
Amount = Union[str, int]
# Seconds, or a number with a unit, such as "250ms".
Duration = Union[str, float, timedelta]
Isolation = Literal["in_process", "process", "process_required"]


class Limits(TypedDict, total=False):
    """Limits of one call. A limit that is left out has its default."""

    deadline: Duration
    """Maximum wall time of a call, such as "2s". Default: 10s."""
    fuel: Amount
    """Maximum fuel of a call, about one unit per instruction, such as "500M". Default: 10G."""
    memory: Amount
    """Maximum memory of a call, such as "128MiB". Default: 64MiB."""
    output: Amount
    """Maximum size of a result, such as "4MiB". Default: 1MiB."""
    log: Amount
    """Maximum size of log lines, progress, stdout and stderr together. Default: 256KiB."""
    string: Amount
    """Maximum size of a single string in the arguments, such as "100KiB". If the schema of a property has a `maxLength`, that applies instead. Default: 10KiB."""


class HttpLimits(TypedDict, total=False):
    """Limits on the requests of one call. A limit that is left out has its default."""

    requests: Amount
    """Maximum number of requests."""
    bytes_out: Amount
    """Maximum bytes that all requests together send."""
    bytes_in: Amount
    """Maximum bytes that all requests together receive."""
    in_flight: Amount
    """Maximum number of concurrent requests."""
    connect: Duration
    """Maximum time to look up the name and connect. Default: 10s. Times never extend the deadline of the call."""
    tls: Duration
    """Maximum time for the TLS handshake. Default: 10s."""
    first_byte: Duration
    """Maximum time from then until the headers of the response are complete. Default: 30s."""
    between_bytes: Duration
    """Maximum time between two pieces of the response. Default: 30s."""


class TcpLimits(TypedDict, total=False):
    """Limits on the TCP connections of one call. A limit that is left out has its default."""

    connections: Amount
    """Maximum number of connections that are opened, and of names that are looked up. Default: 8."""
    bytes_out: Amount
    """Maximum bytes that all connections together send. Default: 1MiB."""
    bytes_in: Amount
    """Maximum bytes that all connections together receive. Default: 10MiB."""
    connect: Duration
    """Maximum time to look up a name, and to connect. Default: 10s."""


class _WriteFolder(TypedDict):
    folder: Path
    """The folder on this machine, relative to the working folder."""
    guest: str
    """The path at which the tool sees it, such as "/out"."""


class WriteFolder(_WriteFolder, total=False):
    """A folder that may be changed, with its quotas."""

    bytes: Amount
    """Maximum number of bytes that tools may add."""
    entries: Amount
    """Maximum number of files and folders that tools may add."""


# `from` and `for` are keywords, so that a class cannot have such members.
Secret = TypedDict(
    "Secret",
    {
        "name": "str",
        "from": "Mapping[str, Path]",
        "for": "str",
        "header": "str",
        "query": "str",
        "value": "str",
    },
    total=False,
)


class Grants(TypedDict, total=False):
    """Powers of a component. The default is none."""

    state: bool
    """Let it read the agent's state, which the option `state` of a call sets."""
    read: Sequence[str]
    """Folders that it may read, as "HOST:GUEST", such as "./docs:/docs"."""
    write: Sequence[Union[str, WriteFolder]]
    """Folders that it may read and change, as "HOST:GUEST" or as a table with quotas."""
    scratch: Amount
    """An empty folder for each call, /scratch, of at most this size. It is removed after the call."""
    http: Sequence[str]
    """Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**"."""
    http_limits: HttpLimits
    """Limits on the number, size and time of the requests of one call."""
    tcp: Sequence[str]
    """TCP connections that it may open, as "HOST:PORT", such as "db.example.com:5432"."""
    tcp_limits: TcpLimits
    """Limits on the number and size of the TCP connections of one call."""
    private_addresses: Sequence[str]
    """Private addresses that its requests and connections may reach, such as "127.0.0.1/32"."""
    env: Mapping[str, str]
    """Environment variables, with their values. The host's own are never passed on."""
    args: Sequence[str]
    """Command line arguments. Most languages take the first as the program name."""
    secrets: Sequence[Secret]
    """Secrets that the host adds to its requests."""
    clock: Duration
    """Resolution of its clocks, such as "1us". Default: 1ms."""
    random_seed: int
    """Makes its randomness the same in every call. Use it for replay and tests only."""
    key_value: Amount
    """A private key-value store of at most this size."""
    apps: bool
    """Show its pages (MCP Apps: `ui://` resources and `_meta.ui` of its tools) to clients that declare the extension. Default: false."""
    app_origins: Sequence[str]
    """Origins that its pages may reach, such as "https://api.example.com". Default: none."""


class Budget(TypedDict, total=False):
    """Budget of one session. A limit that is left out has its default."""

    turns: int
    """Maximum requests to the model per message of the user. Default: 8."""
    calls: int
    """Maximum tool calls per message of the user, including refused calls. Default: 25."""
    calls_in_all: Amount
    """Maximum tool calls of the whole session. Default: 40."""
    wall_time: Duration
    """Maximum total time per message of the user. Default: 10m."""
    tokens_in: Amount
    """Maximum tokens of all requests. Default: 150k."""
    tokens_out: Amount
    """Maximum tokens of all answers. Default: 20k."""
    fuel: Amount
    """Maximum fuel of all tools. Default: no limit."""


class _TextFile(TypedDict):
    file: Path
    """The path of the file, relative to the working folder."""


class TextFile(_TextFile, total=False):
    """A file with a text."""


class _Registry(TypedDict):
    store: Path
    """The folder that components are kept in."""


class Registry(_Registry, total=False):
    """Components of registries, with the names of `[registry]` in `fumehood.toml`. Paths are relative to the working folder."""

    offline: bool
    """Use only components that are in the store."""
    allow: Sequence[str]
    """Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default: all names."""
    signatures: Literal["required", "warn", "off"]
    """The rule for signatures. Default: required."""
    trusted_keys: Sequence[Union[str, TextFile]]
    """Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or a file with it."""
    trusted: Mapping[str, Sequence[Union[str, TextFile]]]
    """The only trusted keys for names that match a pattern."""
    max_bytes: Amount
    """Maximum size of a component. The default is 64 MiB."""
    min_age: Duration
    """Minimum age of a signature. The default is none."""
    revoked: Sequence[str]
    """Digests of manifests and components that are refused."""
    mirrors: Mapping[str, Sequence[str]]
    """Mirrors of registries, tried in this order before the registry."""
    proxy: str
    """The proxy for all requests. Default: none; proxy variables of the environment are ignored."""
    plain_http: Sequence[str]
    """Registries, `HOST[:PORT]`, to contact without encryption. Default: registries on this machine."""
