"""The programs of docs/python-embedding.md, and the one of README.md, run as they are written."""

import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

FOLDER = pathlib.Path(__file__).parent.parent


def programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (FOLDER / page).read_text(), re.DOTALL)


# README.md has a tool, which a test of the command builds, and lines that stand in an asynchronous function.
LINES = programs("README.md")[-1]
README = f"""import asyncio, fumehood
async def main():
{textwrap.indent(LINES, "    ")}
    print(result.structured)
asyncio.run(main())
"""
PROGRAMS = [*programs("python-embedding.md"), README]
PRINTED = [
    ["calculator__add ['a', 'b']", "True {'result': 8}", "invalid_arguments: /a: expected a number"],
    ["read files in /docs", "{'result': 2}"],
    ["1 of 3", "3 of 3", 'Result(tool="countdown__countdown", ok=True)', "stopped"],
    [],
    ["{'result': 8}"],
]


@pytest.mark.parametrize(("program", "expected"), list(zip(PROGRAMS, PRINTED, strict=True)))
def test_programs_of_the_documentation_run(
    components: pathlib.Path, tmp_path: pathlib.Path, program: str, expected: list[str]
) -> None:
    for name in ("calculator.wasm", "countdown.wasm"):
        shutil.copy(components / name, tmp_path)
    (tmp_path / "docs").mkdir()
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for line in expected:
        assert line in done.stdout
