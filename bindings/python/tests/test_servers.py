"""MCP servers, whose tools are called like the tools of components."""

import asyncio
import os
import pathlib
import sys

import pytest

import fumehood
from fumehood.agent import ModelRequest, Reply

SERVER = """
import os, sys
from mcp.server import MCPServer
server = MCPServer("test")

@server.tool()
def greet(name: str) -> str:
    "Greets a person."
    return f"Hello, {name}!"

@server.tool()
async def wait(seconds: float) -> str:
    import asyncio
    await asyncio.sleep(seconds)
    return "done"

@server.tool()
def environment() -> dict[str, str]:
    return {"pid": str(os.getpid()), **{name: os.environ.get(name, "") for name in ("PLAIN", "TOKEN", "SECRET_HERE")}}

server.run()
"""
COMMAND = [sys.executable, "-c", SERVER]
# For a machine that is busy with other things.
START_TIMEOUT = "120s"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_tools_of_a_server_are_called_as_others(calculator: fumehood.Host) -> None:
    server = await calculator.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT)
    assert (server.name, server.ignored) == ("test", [])
    assert set(server.tools) == {"test__greet", "test__wait", "test__environment"}
    names = [tool.name for tool in calculator.tools()]
    assert names == sorted(names) and {"calculator__add", "test__greet"} <= set(names)
    greet = calculator.tool("test__greet")
    assert greet is not None and greet.description == "Greets a person."
    for _ in range(2):
        result = await calculator.call("test__greet", {"name": "Ada"})
        assert (result.ok, result.tool, result.text) == (True, "test__greet", "Hello, Ada!") and result.id
    assert calculator.call_sync("test__greet", {"name": "Bob"}).text == "Hello, Bob!"
    refused = await calculator.call("test__greet", {"name": 5})
    assert refused.error is not None and (refused.error.kind, refused.ran) == ("invalid_arguments", False)
    late = await calculator.call("test__wait", {"seconds": 60}, limits={"deadline": "100ms"})
    assert late.error is not None and late.error.kind == "deadline"
    await calculator.shutdown()


async def test_agents_call_servers(host: fumehood.Host) -> None:
    await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT, tools=["greet"])
    replies: list[Reply] = [{"tool_calls": [{"name": "test__greet", "arguments": {"name": "Ada"}}]}, "Done."]

    async def model(_: ModelRequest) -> Reply:
        return replies.pop(0)

    result = await host.agent(model, allow=["test__greet"]).run("Greet Ada.")
    assert [(made.tool, made.result.text) for made in result.calls] == [("test__greet", "Hello, Ada!")]
    await host.shutdown()


async def test_servers_end_with_the_host(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_HERE", "hunter2hunter2")
    async with fumehood.Host(cache=cache) as host:
        secret_env = {"TOKEN": {"env": "SECRET_HERE"}}
        await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT, env={"PLAIN": "x"}, secret_env=secret_env)
        environment = (await host.call("test__environment")).json()
        # The value of a secret is redacted, and other variables are not passed on.
        assert (environment["PLAIN"], environment["SECRET_HERE"]) == ("x", "")
        assert environment["TOKEN"] and "hunter2" not in environment["TOKEN"]
        assert is_running(int(environment["pid"]))
    for _ in range(1000):
        if not is_running(int(environment["pid"])):
            break
        await asyncio.sleep(0.01)
    assert not is_running(int(environment["pid"]))
    assert host.tool("test__environment") is None
    with pytest.raises(fumehood.HostError, match="shut down"):
        await host.add_server("other", command=COMMAND)


async def test_a_server_is_removed(host: fumehood.Host) -> None:
    await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT)
    assert (await host.remove_server("test"), await host.remove_server("test")) == (True, False)
    gone = await host.call("test__greet", {"name": "Ada"})
    assert gone.error is not None and gone.error.kind == "unknown_tool"
    await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT)
    assert (await host.call("test__greet", {"name": "Ada"})).ok
    await host.shutdown()


async def test_servers_that_cannot_be_used_are_errors(calculator: fumehood.Host, components: pathlib.Path) -> None:
    with pytest.raises(fumehood.LoadError, match="cannot use the server `a`: cannot start `/nothing`"):
        await calculator.add_server("a", command=["/nothing"])
    with pytest.raises(fumehood.LoadError, match="`calculator` is the name of another"):
        await calculator.add_server("calculator", command=COMMAND)
    for settings in ({}, {"command": COMMAND, "url": "https://mcp.example.com"}):
        with pytest.raises(ValueError, match="`command`: expected either"):
            await calculator.add_server("a", **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`url`: a token or a secret header would be sent unencrypted"):
        await calculator.add_server("a", url="http://mcp.example.com", bearer={"env": "PATH"})
    with pytest.raises(ValueError, match="`timeout`: invalid time `-1"):
        await calculator.add_server("a", command=COMMAND, timeout=-1)
    # A name that failed is free again, and one that is taken is not for a component.
    await calculator.add_server("a", command=COMMAND, start_timeout=START_TIMEOUT)
    with pytest.raises(fumehood.LoadError, match="`a` is already loaded"):
        await calculator.load(components / "calculator.wasm", name="a")
    await calculator.shutdown()


async def test_with_a_lock_servers_need_its_approval(tmp_path: pathlib.Path) -> None:
    host = fumehood.Host(lock=tmp_path / "fumehood.lock")
    with pytest.raises(fumehood.LoadError, match="the server `test` is not what the lock approves"):
        await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT)


async def test_calls_of_servers_are_recorded(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    async with fumehood.Host(cache=cache, log=tmp_path / "events.db") as host:
        await host.add_server("test", command=COMMAND, start_timeout=START_TIMEOUT)
        assert (await host.call("test__greet", {"name": "Ada"})).ok
        report = await host.verify_log()
        assert report.ok and report.rows == 4
