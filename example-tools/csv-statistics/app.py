"""Statistics of tables."""

import csv
import statistics
from dataclasses import dataclass
from typing import Annotated

from fumehood_tool import ToolError, tool


@dataclass
class Column:
    """The numbers of one column. Empty cells do not count."""

    name: str
    count: int
    minimum: float
    maximum: float
    mean: float
    median: float
    deviation: float | None


@dataclass
class Statistics:
    rows: int
    columns: list[Column]
    """The columns with numbers."""


@tool(title="Statistics of a table", read_only=True, idempotent=True, open_world=False)
def describe(table: Annotated[str, {"minLength": 1}], delimiter: Annotated[str, {"enum": [",", ";", "\t"]}] = ",") -> Statistics:
    """Returns minimum, maximum, mean, median and standard deviation of each column with numbers.

    Args:
        table: CSV, whose first line has the names of the columns.
        delimiter: The character between two cells.
    """
    names, *rows = csv.reader(table.splitlines(), delimiter=delimiter)
    for number, row in enumerate(rows, start=2):
        if row and len(row) != len(names):
            raise ToolError(f"line {number} has {len(row)} cells; expected {len(names)}, as in line 1", "invalid_arguments")
    rows = [row for row in rows if row]
    columns = [numbers(name, [row[index].strip() for row in rows]) for index, name in enumerate(names)]
    return Statistics(len(rows), [column for column in columns if column is not None])


def numbers(name: str, cells: list[str]) -> Column | None:
    try:
        values = [float(cell) for cell in cells if cell]
    except ValueError:
        return None
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Column(name, len(values), min(values), max(values), statistics.fmean(values), statistics.median(values), deviation)
