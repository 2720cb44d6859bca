"""Fixtures: a host, and the components of the repository."""

import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest

import fumehood

ROOT = pathlib.Path(os.environ["FUMEHOOD_ROOT"])


def skip(what: str, why: str) -> NoReturn:
    """Leaves a test out because this machine lacks `what`; in the gate that is a failure, by the rule of `tests/skip`."""
    subprocess.run([ROOT / "tests" / "skip", what, why], check=True)
    pytest.skip(why)


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
