"""Paired rounds, and tables of the ratios they give."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

Work = Callable[[], object]
Values = list[float]
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass
class Cell:
    """One figure: `run` gives its value in each round; None where what it needs is not installed.

    `budget`: the most it may be, or the least with `least`. `wanted`: what it should be where the budget is looser.
    `unit` stands behind it. `sampled`: a part was timed and scaled up.
    """

    run: Callable[[], Values] | None
    budget: float | None = None
    wanted: float | None = None
    least: bool = False
    unit: str = TIMES
    sampled: bool = False
    values: Values = field(default_factory=list)

    def measure(self) -> None:
        if self.run is not None:
            self.values = self.run()

    @property
    def value(self) -> float:
        return median(self.values)

    def holds(self) -> bool:
        """Whether the budget is kept: by the median, or by the better half where neighbours on the machine disturb."""
        if self.budget is None or not self.values:
            return True
        ordered = sorted(self.values, reverse=self.least)
        better = median(ordered[: (len(ordered) + 1) // 2])
        return better >= self.budget if self.least else better <= self.budget

    def shown(self) -> str:
        if not self.values:
            return "absent"
        text = number(self.value)
        if len(self.values) > 1:
            text += f" ({number(min(self.values))}-{number(max(self.values))})"
        text += self.unit if self.unit == TIMES else f" {self.unit}"
        return text + ("~" if self.sampled else "")

    def allowed(self) -> str:
        if self.budget is None:
            return ""
        text = f"{'≥' if self.least else '≤'} {number(self.budget)}"
        return text if self.wanted in (None, self.budget) else f"{text} (issue wants {number(self.wanted)})"


@dataclass
class Table:
    """Rows of cells by column."""

    title: str
    note: str
    rows: dict[str, dict[str, Cell]]

    def cells(self) -> list[tuple[str, Cell]]:
        return [(f"{row}, {column}", cell) for row, cells in self.rows.items() for column, cell in cells.items()]

    def text(self) -> str:
        columns = list(dict.fromkeys(column for cells in self.rows.values() for column in cells))
        budgets = any(cell.budget is not None for _, cell in self.cells())
        lines = [["", *columns, *(["budget"] if budgets else [])]]
        for name, cells in self.rows.items():
            line = [name, *(cells[column].shown() if column in cells else "" for column in columns)]
            if budgets:
                allowed = {column: cell.allowed() for column, cell in cells.items() if cell.allowed()}
                same = len(set(allowed.values())) == 1
                line.append(
                    next(iter(allowed.values())) if same else "; ".join(f"{c}: {a}" for c, a in allowed.items())
                )
            lines.append(line)
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        body = ["  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, self.note, "", *(line.rstrip() for line in body), ""])


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(work: Work) -> float:
    """Of processor time: what others do on the machine in the meantime is not in it."""
    start = process_time()
    work()
    return process_time() - start


def paired(
    work: Work, floor: Work, *, rounds: int = 9, scale: float = 1.0, warm: Work | None = None
) -> Callable[[], Values]:
    """time(work) / time(floor) * scale of each round; the two take turns in going first.

    Inputs are made inside of the work (as by orjson.loads), so every round has fresh ones.
    """

    def run() -> Values:
        gc.collect()
        values = []
        (warm or work)()
        for turn in range(rounds):
            if turn % 2:
                mine, other = seconds(work), seconds(floor)
            else:
                other, mine = seconds(floor), seconds(work)
            values.append(mine / other * scale)
        return values

    return run


def repeated(work: Work, times: int) -> Work:
    def run() -> None:
        for _ in range(times):
            work()

    return run


def module(name: str) -> Any:
    """A peer's module, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def parts(text: str, size: int) -> Sequence[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
