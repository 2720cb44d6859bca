"""Uses the API through a client that a public generator made of its OpenAPI document.

use_client.py CLIENT URL TOKEN: CLIENT is the folder of the generated package, URL the address of the server, and TOKEN one that it
accepts. Fails with the first thing that is not as expected.
"""

import importlib
import sys
import threading
import time
from pathlib import Path

PATIENCE_SECONDS = 60


def main(folder: Path, url: str, token: str) -> None:
    sys.path.insert(0, str(folder.parent))
    package = folder.name

    def part(path: str):
        return importlib.import_module(f"{package}.{path}")

    models, client = part("models"), part("client").AuthenticatedClient(base_url=url, token=token, timeout=PATIENCE_SECONDS)

    # Lists the tools, and reads one.
    tools = part("api.tools.list_tools").sync(client=client)
    names = [tool.name for tool in tools.tools]
    assert "calculator__add" in names and "countdown__countdown" in names, names
    tool = part("api.tools.get_tool").sync("calculator__add", client=client)
    assert tool.name == "calculator__add", tool

    # Calls a tool, with types that were generated from its own schema.
    add = part("api.calculator.call_calculator_add")
    answer = add.sync_detailed(client=client, body=models.CalculatorAddArguments(a=3, b=5))
    assert answer.status_code == 200 and answer.parsed.status == "ok", answer
    assert answer.parsed.value.result == 8, answer.parsed.value
    assert answer.parsed.metadata.to_dict()["fuel_used"] > 0, answer.parsed.metadata

    # Reads that call.
    call = wait_for(lambda: part("api.calls.get_call").sync_detailed(answer.parsed.id, client=client), lambda it: it.status_code == 200)
    assert call.parsed.to_dict()["tool"] == "calculator__add", call.parsed

    # Wrong arguments are a problem with a reason.
    wrong = models.CalculatorAddArguments(a="three", b=5)
    problem = add.sync_detailed(client=client, body=wrong)
    assert problem.status_code == 422, problem
    assert isinstance(problem.parsed, models.Problem), problem
    assert problem.parsed.kind == "invalid_arguments" and "three" not in problem.parsed.title, problem.parsed

    # Cancels a call from elsewhere; its own response says so.
    ended = []
    count = part("api.countdown.call_countdown_countdown")
    body = models.CountdownCountdownArguments(from_=90, step_ms=100)
    waiting = threading.Thread(target=lambda: ended.append(count.sync_detailed(client=client, body=body)))
    waiting.start()
    list_calls = part("api.calls.list_calls")

    def running():
        return [it for it in list_calls.sync(client=client).calls if it.tool == "countdown__countdown" and it.status == "running"]

    [running_call] = wait_for(running, lambda found: len(found) == 1)
    cancelled = part("api.calls.cancel_call").sync_detailed(running_call.id, client=client)
    assert cancelled.status_code in (202, 204), cancelled
    waiting.join(PATIENCE_SECONDS)
    assert isinstance(ended[0].parsed, models.Problem) and ended[0].parsed.kind == "cancelled", ended

    # Comes back for the result of a call, and removes it.
    accepted = count.sync_detailed(client=client, body=models.CountdownCountdownArguments(from_=3, step_ms=20), prefer="respond-async")
    assert accepted.status_code == 202 and accepted.headers["location"] == f"/v1/jobs/{accepted.parsed.id}", accepted
    job = part("api.jobs.get_job").sync_detailed(accepted.parsed.id, client=client, prefer="wait=30")
    assert job.parsed.status == "completed" and job.parsed.result.value["from"] == 3, job
    assert [it.id for it in part("api.jobs.list_jobs").sync(client=client).jobs] == [accepted.parsed.id]
    removed = part("api.jobs.delete_job").sync_detailed(accepted.parsed.id, client=client)
    assert removed.status_code == 204, removed

    # With another token nothing is told.
    stranger = part("client").AuthenticatedClient(base_url=url, token="another-token-of-nobody")
    refused = part("api.tools.list_tools").sync_detailed(client=stranger)
    assert refused.status_code == 401 and refused.parsed.status == 401, refused
    print("the generated client works")


def wait_for(ask, is_expected):
    """Asks until the answer is as expected, and returns it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = ask()
        if is_expected(answer):
            return answer
        assert time.monotonic() < until, answer
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3])
