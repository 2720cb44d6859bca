"""The programs of docs/python-embedding.md, and the one of README.md, run as they are written."""

import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

FOLDER = pathlib.Path(__file__).parent.parent


def programs(page: str) -> list[tuple[str, str]]:
    """Returns the programs of a page, each with what the page says that it prints."""
    parts = (FOLDER / page).read_text().split("```python\n")[1:]
    printed = (re.search(r"```text\n(.*?)```", part, re.DOTALL) for part in parts)
    return [(part.split("```")[0], output.group(1) if output else "") for part, output in zip(parts, printed)]


# README.md has a tool, which a test of the command builds, and lines that stand in an asynchronous function.
LINES, _ = programs("README.md")[-1]
README = f"""import asyncio, fumehood
async def main():
{textwrap.indent(LINES, "    ")}
    print(result.structured)
asyncio.run(main())
"""
PROGRAMS = [*programs("python-embedding.md"), (README, "{'result': 8}\n")]


def test_the_page_says_what_its_programs_print() -> None:
    assert len([printed for _, printed in PROGRAMS if printed]) == 10


@pytest.mark.parametrize(("program", "expected"), PROGRAMS)
def test_programs_of_the_documentation_run(
    components: pathlib.Path, tmp_path: pathlib.Path, program: str, expected: str
) -> None:
    for name in ("calculator.wasm", "countdown.wasm"):
        shutil.copy(components / name, tmp_path)
    shutil.copy(FOLDER / "reader.wasm", tmp_path)
    (tmp_path / "docs").mkdir()
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
