"""Agents: a model of the program, with tools of the host."""

import asyncio
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

import fumehood
from fumehood.agent import ModelReply, ModelRequest, ProposedCall, Reply

Step = Callable[[ModelRequest], Any]


def call(name: str, arguments: Any, id: str = "c") -> ModelReply:
    return {"tool_calls": [{"id": id, "name": name, "arguments": arguments}]}


class Script:
    """A model that gives these replies, one after the other, and keeps the requests."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def last_content(self) -> str:
        return self.requests[-1]["messages"][-1]["content"]


async def test_model_calls_tools_and_answers(calculator: fumehood.Host) -> None:
    first: ModelReply = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "one", "name": "calculator__add", "arguments": '{"a": 3, "b": 5}'},
            {"id": "two", "name": "calculator__multiply", "arguments": {"a": 8, "b": 2}},
        ],
        "usage": {"input": 100, "output": 10},
    }
    model = Script(first, {"content": "It is 8, and 16.", "usage": {"input": 150, "output": 7}})
    agent = calculator.agent(model, system="You answer questions about sums.")
    result = await agent.run("What is 3 + 5, and twice that?")
    assert (result.ok, result.status, result.reason, result.text) == (True, "answered", None, "It is 8, and 16.")
    assert (result.turns, result.usage["input"], result.usage["output"]) == (2, 250, 17)
    assert [(made.id, made.tool, made.status) for made in result.calls] == [
        ("one", "calculator__add", "ok"),
        ("two", "calculator__multiply", "ok"),
    ]
    assert [made.result.structured for made in result.calls] == [{"result": 8}, {"result": 16}]
    assert result.calls[0].arguments == '{"a": 3, "b": 5}'

    opening, following = model.requests
    assert [message["role"] for message in opening["messages"]] == ["system", "user"]
    add = next(tool for tool in opening["tools"] if tool["name"] == "calculator__add")
    assert add["parameters"]["required"] == ["a", "b"] and opening["tool_choice"] == "auto"
    _, _, asked, answered, *_ = following["messages"]
    assert asked["content"] == "Let me see." and asked["tool_calls"][0]["id"] == "one"
    assert (answered["role"], answered["tool_call_id"], answered["content"]) == ("tool", "one", '{"result":8}')


async def test_conversation_continues(calculator: fumehood.Host) -> None:
    model = Script("Hello.", "You said hi.")
    agent = calculator.agent(model)
    first, second = await asyncio.gather(agent.run("Hi."), agent.run("What did I say?"))
    assert (first.text, second.text) == ("Hello.", "You said hi.")
    assert [message["content"] for message in model.requests[1]["messages"]] == ["Hi.", "Hello.", "What did I say?"]


@pytest.mark.parametrize(
    ("arguments", "status", "kind"),
    [({"a": "3", "b": 5}, "rejected_schema", "invalid_arguments"), ("{", "rejected_schema", "invalid_arguments")],
)
async def test_model_reads_why_a_call_was_refused(
    calculator: fumehood.Host, arguments: Any, status: str, kind: str
) -> None:
    model = Script(call("calculator__add", arguments), "I cannot.")
    result = await calculator.agent(model).run("3 + 5?")
    [made] = result.calls
    assert (made.status, made.result.ok, made.result.ran) == (status, False, False)
    assert made.result.error is not None and made.result.error.kind == kind
    assert model.requests[1]["messages"][-1]["is_error"] and result.text == "I cannot."


async def test_only_allowed_tools_can_be_called(calculator: fumehood.Host) -> None:
    model = Script(call("calculator__add", {"a": 1, "b": 1}), "No.")
    result = await calculator.agent(model, allow=["calculator__multiply"]).run("1 + 1?")
    assert [tool["name"] for tool in model.requests[0]["tools"]] == ["calculator__multiply"]
    assert result.calls[0].status == "rejected_allowlist"
    for option in ("allow", "ask"):
        with pytest.raises(ValueError, match=f"`{option}`: unknown tool `calculator__ad`"):
            calculator.agent(model, **{option: ["calculator__ad"]})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "status", "read"),
    [(True, "ok", "8"), (False, "rejected_denied", "denied"), ("not on a Sunday", "rejected_denied", "not on a Sunday")],
)
async def test_calls_wait_for_a_yes(calculator: fumehood.Host, answer: bool | str, status: str, read: str) -> None:
    asked: list[ProposedCall] = []

    def approve(proposed: ProposedCall) -> bool | str:
        asked.append(proposed)
        return answer

    model = Script(call("calculator__add", {"a": 3, "b": 5}), call("calculator__multiply", {"a": 1, "b": 1}), "Done.")
    agent = calculator.agent(model, ask=["calculator__add"], approve=approve, actor="ann")
    result = await agent.run("3 + 5?")
    assert [made.status for made in result.calls] == [status, "ok"]
    assert read in model.requests[1]["messages"][-1]["content"]
    [proposed] = asked
    assert (proposed["tool"], proposed["arguments"]) == ("calculator__add", {"a": 3, "b": 5})
    assert (proposed["actor"], proposed["annotations"]["read_only"]) == ("ann", True)


async def test_without_approve_calls_that_need_a_yes_are_refused(calculator: fumehood.Host) -> None:
    model = Script(call("calculator__add", {"a": 3, "b": 5}), "No.")
    result = await calculator.agent(model, ask=["calculator__add"]).run("3 + 5?")
    [made] = result.calls
    assert made.result.error is not None and made.result.error.kind == "needs_approval"


async def test_without_names_every_call_needs_a_yes(calculator: fumehood.Host) -> None:
    async def approve(_: ProposedCall) -> bool:
        return False

    model = Script(call("calculator__add", {"a": 3, "b": 5}), "No.")
    result = await calculator.agent(model, approve=approve).run("3 + 5?")
    assert result.calls[0].status == "rejected_denied"


async def test_budget_ends_the_run(calculator: fumehood.Host) -> None:
    many: list[Reply] = [call("calculator__add", {"a": number, "b": 1}) for number in range(5)]
    result = await calculator.agent(Script(*many), budget={"turns": 2}).run("Count.")
    assert (result.ok, result.status, result.turns) == (False, "budget_exhausted", 2)
    assert result.reason is not None and "requests to the model" in result.reason
    with pytest.raises(ValueError, match="budget.turn"):
        calculator.agent(Script(), budget={"turn": 2})  # type: ignore[typeddict-unknown-key]


async def test_slow_model_is_stopped_by_the_budget(calculator: fumehood.Host) -> None:
    stopped = asyncio.Event()

    async def model(_: ModelRequest) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return ""

    result = await calculator.agent(model, budget={"wall_time": 0.05}).run("Hi.")
    assert result.status == "budget_exhausted"
    await asyncio.wait_for(stopped.wait(), 10)


async def test_exception_of_the_model_is_raised(calculator: fumehood.Host) -> None:
    model = Script(call("calculator__add", {"a": 3, "b": 5}), KeyError("no key"), "Hello again.")
    agent = calculator.agent(model)
    with pytest.raises(KeyError, match="no key"):
        await agent.run("3 + 5?")
    assert (await agent.run("Are you there?")).text == "Hello again."


async def test_exception_of_approve_is_raised(calculator: fumehood.Host) -> None:
    def approve(_: ProposedCall) -> bool:
        raise OSError("the terminal is gone")

    model = Script(call("calculator__add", {"a": 3, "b": 5}), "Not reached.")
    with pytest.raises(OSError, match="the terminal is gone"):
        await calculator.agent(model, approve=approve).run("3 + 5?")
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ({"tool_call": []}, ValueError, "`reply.tool_call`: unknown field"),
        ({"tool_calls": [{"arguments": {}}]}, ValueError, r"`reply.tool_calls\[0\]`: missing field `name`"),
        (5, ValueError, "expected the reply of the model"),
        (None, ValueError, "expected the reply of the model"),
        (b"hi", TypeError, "not JSON serializable"),
        ({"content": float("nan")}, ValueError, "JSON"),
    ],
)
async def test_malformed_reply_is_an_exception(
    calculator: fumehood.Host, reply: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await calculator.agent(Script(reply)).run("Hi.")


async def test_cancelling_stops_the_guest(countdown: fumehood.Host) -> None:
    agent = countdown.agent(Script(call("countdown__countdown", {"from": 1000, "step_ms": 50}), "Hello again."))
    running = asyncio.create_task(agent.run("Count."))
    while countdown.running == 0:
        await asyncio.sleep(0.002)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(1000):
        if countdown.running == 0:
            break
        await asyncio.sleep(0.002)
    assert countdown.running == 0
    assert (await agent.run("Are you there?")).text == "Hello again."


async def test_cancelling_stops_the_model(calculator: fumehood.Host) -> None:
    begun = asyncio.Event()
    stopped = asyncio.Event()

    async def model(_: ModelRequest) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return ""

    running = asyncio.create_task(calculator.agent(model).run("Hi."))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stopped.is_set()


async def test_model_may_block_its_thread(calculator: fumehood.Host) -> None:
    reached = threading.Event()

    def model(request: ModelRequest) -> Reply:
        # The event loop and the threads that run tools go on meanwhile.
        assert reached.wait(30)
        return "Hello."

    running = asyncio.create_task(calculator.agent(model).run("Hi."))
    await asyncio.sleep(0.01)
    assert (await calculator.call("calculator__add", {"a": 3, "b": 5})).ok
    reached.set()
    assert (await running).text == "Hello."


async def test_functions_may_return_awaitables(calculator: fumehood.Host) -> None:
    script = Script("Hello.")
    assert (await calculator.agent(lambda request: script(request)).run("Hi.")).text == "Hello."


async def test_thoughts_are_given_back_with_the_calls(calculator: fumehood.Host) -> None:
    block = {"type": "thinking", "signature": "abc"}
    calls: list[Any] = [
        {"id": str(number), "name": "calculator__add", "arguments": {"a": number, "b": 1}} for number in range(2)
    ]
    model = Script({"thoughts": [block], "tool_calls": calls}, "Done.")
    await calculator.agent(model).run("Add.")
    asked, *answered = model.requests[1]["messages"][1:]
    assert (asked["thoughts"], [made["id"] for made in asked["tool_calls"]]) == ([block], ["0", "1"])
    assert [message["tool_call_id"] for message in answered] == ["0", "1"]


async def test_long_names_are_aliases_for_the_model(host: fumehood.Host, components: pathlib.Path) -> None:
    await host.load(components / "calculator.wasm", name="n" * 64)
    full = f"{'n' * 64}__add"
    alias = host.tools()[0].alias
    assert len(alias) == 64
    model = Script(call(alias, {"a": 3, "b": 5}), "8")
    result = await host.agent(model).run("3 + 5?")
    assert all(len(tool["name"]) <= 64 for tool in model.requests[0]["tools"])
    assert [(made.tool, made.status) for made in result.calls] == [(full, "ok")]
    assert model.requests[1]["messages"][1]["tool_calls"][0]["name"] == alias


async def test_runs_are_recorded(components: pathlib.Path, cache: pathlib.Path, tmp_path: pathlib.Path) -> None:
    async with fumehood.Host(cache=cache, log=tmp_path / "events.db") as host:
        await host.load(components / "calculator.wasm")
        agent = host.agent(Script(call("calculator__add", {"a": 3, "b": 5}), "8"))
        await agent.run("3 + 5?")
        report = await host.verify_log()
        assert report.ok and report.rows > 6
