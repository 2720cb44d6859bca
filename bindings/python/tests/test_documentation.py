"""The programs of docs/python-embedding.md run as they are written."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

DOCUMENT = pathlib.Path(__file__).parent.parent / "python-embedding.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
PRINTED = [
    ["calculator__add ['a', 'b']", "True {'result': 8}", "invalid_arguments: /a: expected a number"],
    ["read files in /docs", "{'result': 2}"],
    ["1 of 3", "3 of 3", 'Result(tool="countdown__countdown", ok=True)', "stopped"],
    [],
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
