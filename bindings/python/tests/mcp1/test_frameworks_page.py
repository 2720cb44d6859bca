"""The program of docs/python-embedding.md with the frameworks of this environment."""

import pathlib

from test_documentation import MCP1_PROGRAMS, run


def test_program_of_the_documentation_runs(components: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (program,) = MCP1_PROGRAMS
    assert run(program, components, tmp_path) == ""
