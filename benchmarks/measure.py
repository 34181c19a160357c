"""Paired rounds, and tables of the ratios they give."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import process_time
from typing import Any

Work = Callable[[], object]
Values = list[float]

TRIES = 5
MARGIN = 1.25


@dataclass
class Cell:
    """One figure: `run` gives its value in each round, none where what it needs is not installed.

    `budget`: the most it may be, or the least with `least`. `wanted`: what it should be where the budget is looser.
    `margin`: how far beyond its budget it must be, each time, until it is called missed. `unit` stands behind it.
    `sampled`: a part was timed and scaled up.
    """

    run: Callable[[], Values]
    budget: float | None = None
    wanted: float | None = None
    least: bool = False
    unit: str = ""
    sampled: bool = False
    margin: float = MARGIN
    values: Values | None = None

    def measure(self) -> None:
        self.values = self.run()

    def settle(self, margin: float = MARGIN) -> bool:
        """Measure until the budget is kept: what others on the machine do passes, a regression does not.

        `margin` in place of the usual one.
        """
        if self.margin == MARGIN:
            self.margin = margin
        for _ in range(TRIES):
            self.measure()
            if self.holds():
                return True
        return False

    def holds(self) -> bool:
        """Whether the better half of the rounds keeps the budget and its margin."""
        if self.budget is None or not self.values:
            return True
        ordered = sorted(self.values, reverse=self.least)
        better = median(ordered[: (len(ordered) + 1) // 2])
        return better >= self.budget / self.margin if self.least else better <= self.budget * self.margin

    def allowed(self) -> str:
        return f"{distinct([(self.budget, self.least)])} and a margin of {self.margin - 1:.0%}"

    def shown(self) -> str:
        """The median, and half of the width in which half of the rounds lie."""
        if self.values is None:
            return ""
        if not self.values:
            return "absent"
        middle = median(self.values)
        text = "~" * self.sampled + number(middle) + self.unit
        if len(self.values) > 1:
            low, _, high = quantiles(self.values, n=4, method="inclusive")
            text += f" ±{(high - low) / 2 / middle:.0%}"
        return text

    def record(self) -> dict[str, Any]:
        """For --json."""
        values = [float(f"{value:.4g}") for value in self.values or ()]
        said = {name: getattr(self, name) for name in ("budget", "wanted", "least", "unit", "sampled")}
        middle = median(values) if values else None
        return {"median": middle, "values": values, **{name: value for name, value in said.items() if value}}


@dataclass
class Table:
    """Rows of cells by column."""

    title: str
    note: str
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)

    def cells(self) -> list[tuple[str, Cell]]:
        return [(f"{row}, {column}", cell) for row, cells in self.rows.items() for column, cell in cells.items()]

    def text(self) -> str:
        """The cells that were measured; behind them the budgets, and where these are looser what is wanted."""
        measured = {
            name: {column: cell for column, cell in cells.items() if cell.values is not None}
            for name, cells in self.rows.items()
            if any(cell.values is not None for cell in cells.values())
        }
        columns = list(dict.fromkeys(column for cells in measured.values() for column in cells))
        lines = [["", *columns, "budget", "wanted"]]
        for name, cells in measured.items():
            told = [cells[column].shown() if column in cells else "" for column in columns]
            budgets = distinct((cell.budget, cell.least) for cell in cells.values())
            wanted = distinct((cell.wanted or cell.budget, cell.least) for cell in cells.values())
            lines.append([name, *told, budgets, wanted if wanted != budgets else ""])
        kept = [i for i in range(len(lines[0])) if any(line[i] for line in lines[1:])]
        lines = [[line[i] for i in kept] for line in lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = ["  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, self.note, "", *(line.rstrip() for line in body), ""])


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def distinct(bounds: Iterable[tuple[float | None, bool]]) -> str:
    """Bounds in the order of their columns, equal neighbours once: `≤4.50 ≤3.60`."""
    return " ".join(dict.fromkeys(f"{'≥' if least else '≤'}{number(bound)}" for bound, least in bounds if bound))


def seconds(work: Work) -> float:
    """Of processor time: what others do on the machine in the meantime is not in it."""
    start = process_time()
    work()
    return process_time() - start


def ratios(work: Work, floor: Work, *, rounds: int = 9, scale: float = 1.0, warm: Work | None = None) -> Values:
    """time(work) / time(floor) * scale of each round; the two take turns in going first.

    Inputs are made inside of the work (as by orjson.loads), so every round has fresh ones.
    """
    gc.collect()
    gc.freeze()  # what the peers' modules hold is not walked in anybody's rounds
    (warm or work)()
    values = []
    for turn in range(rounds):
        if turn % 2:
            mine, other = seconds(work), seconds(floor)
        else:
            other, mine = seconds(floor), seconds(work)
        values.append(mine / other * scale)
    return values


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
