"""Fixtures: a host, and the components of the repository."""

import os
import pathlib
from collections.abc import Iterator

import pytest

import fumehood

ROOT = pathlib.Path(os.environ["FUMEHOOD_ROOT"])


@pytest.fixture(scope="session")
def components() -> pathlib.Path:
    return ROOT / "example-tools" / "dist"


@pytest.fixture(scope="session")
def programs() -> pathlib.Path:
    return ROOT / "tests" / "programs"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Compiled code, so that each component is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def host(cache: pathlib.Path) -> Iterator[fumehood.Host]:
    yield fumehood.Host(cache=cache)


@pytest.fixture
def calculator(host: fumehood.Host, components: pathlib.Path) -> fumehood.Host:
    host.load_sync(components / "calculator.wasm")
    return host


@pytest.fixture
def countdown(host: fumehood.Host, components: pathlib.Path) -> fumehood.Host:
    host.load_sync(components / "countdown.wasm", limits={"deadline": "60s"})
    return host
