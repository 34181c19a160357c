"""`python -m benchmarks [--check] [--json FILE] [TABLE…]`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from benchmarks.from_bytes import from_bytes
from benchmarks.measure import Cell, Table
from benchmarks.partial import scanner
from benchmarks.per_event import gateway, growth, per_event
from benchmarks.process import importing, memory

TRIES = 4


def tables(*, full: bool) -> dict[str, Callable[[], list[Table]]]:
    return {
        "1": lambda: [per_event()],
        "2": lambda: [growth(full=full)],
        "3": scanner,
        "4": lambda: [from_bytes(full=full)],
        "5": lambda: [memory(full=full)],
        "6": lambda: [importing()],
        "7": lambda: [gateway()],
    }


def settled(cell: Cell) -> bool:
    """Measure, and again where a budget is not kept: what others on the machine do passes, a regression does not."""
    for _ in range(TRIES):
        cell.measure()
        if cell.holds():
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios, each taken in one run.")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="1 to 7; all if none is given")
    parser.add_argument("--check", action="store_true", help="only what has a budget; exit 1 if one is not kept")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every value of every round")
    options = parser.parse_args()
    start = perf_counter()
    missed: list[str] = []
    record: dict[str, dict[str, list[float]]] = {}
    for number, make in tables(full=not options.check).items():
        if options.tables and number not in options.tables:
            continue
        for table in make():
            for name, cell in table.cells():
                if options.check and cell.budget is not None:
                    if not settled(cell):
                        missed.append(f"{table.title}: {name}: {cell.shown()}, budget {cell.allowed()}")
                elif not options.check:
                    cell.measure()
            if options.check:
                for row in list(table.rows):
                    table.rows[row] = {
                        column: cell for column, cell in table.rows[row].items() if cell.values or cell.run is None
                    }
            print(table.text(), flush=True)
            record[table.title] = {name: cell.values for name, cell in table.cells()}
    print(f"{perf_counter() - start:.0f} s, Python {platform.python_version()}")
    if options.json is not None:
        options.json.write_text(json.dumps({"python": platform.python_version(), "tables": record}, indent=1))
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
