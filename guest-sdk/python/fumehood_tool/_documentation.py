"""Docstrings: a summary, and the descriptions of parameters in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Sections of Google's and NumPy's style. Only the first of each line is about parameters.
_PARAMETERS = ("args", "arguments", "parameters", "params", "attributes")
_OTHERS = ("returns", "return", "raises", "yields", "examples", "example", "notes", "note", "see also")
_SPHINX = re.compile(r":(?:param|ivar)(?: [^:]+)? (\w+):\s*(.*)")
_SPHINX_OTHER = re.compile(r":(returns?|rtype|raises?|type)\b.*")
_GOOGLE = re.compile(r"(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


@dataclass(frozen=True)
class Documentation:
    """A docstring in parts."""

    summary: str
    parameters: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Documentation:
        summary: list[str] = []
        parameters: dict[str, list[str]] = {}
        section = None
        current = None
        lines = text.splitlines()
        for number, line in enumerate(lines):
            stripped = line.strip()
            heading = stripped.rstrip(":").lower()
            is_underlined = number + 1 < len(lines) and set(lines[number + 1].strip()) == {"-"}
            if (stripped.endswith(":") or is_underlined) and heading in (*_PARAMETERS, *_OTHERS):
                section, current = heading, None
            elif set(stripped) == {"-"} and section:
                continue
            elif found := _SPHINX.match(stripped):
                section, current = "sphinx", found[1]
                parameters[current] = [found[2]]
            elif _SPHINX_OTHER.match(stripped):
                section, current = "sphinx", None
            elif section in _PARAMETERS:
                current = _parameter(line, stripped, current, parameters)
            elif section is None:
                summary.append(line)
            elif current and stripped:
                parameters[current].append(stripped)
        described = {name: " ".join(part for part in parts if part) for name, parts in parameters.items()}
        return cls("\n".join(summary).strip(), {name: text for name, text in described.items() if text})


def _parameter(line: str, stripped: str, current: str | None, parameters: dict[str, list[str]]) -> str | None:
    """Reads a line of the section about parameters, and returns the parameter that it is about."""
    indent = len(line) - len(line.lstrip())
    if found := _GOOGLE.fullmatch(stripped):
        if indent <= 4 or current is None:
            parameters[found[1]] = [found[2]]
            return found[1]
    if indent == 0 and (found := re.fullmatch(r"(\w+)(?:\s*:.*)?", stripped)):
        parameters[found[1]] = []
        return found[1]
    if current and stripped:
        parameters[current].append(stripped)
    return current
