"""`python -m benchmarks [--check [--margin RATIO]] [--json FILE] [--rows TEXT] [TABLE ...]`."""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.from_bytes import from_bytes
from benchmarks.gateway import gateway
from benchmarks.growth import growth
from benchmarks.importing import importing
from benchmarks.measure import MARGIN, TRIES, Table
from benchmarks.memory import memory
from benchmarks.partial import scanner
from benchmarks.per_event import per_event


def tables(*, full: bool) -> dict[str, Callable[[], list[Table]]]:
    return {
        "1": per_event,
        "2": lambda: growth(full=full),
        "3": scanner,
        "4": lambda: [from_bytes()],
        "5": lambda: [memory(full=full)],
        "6": lambda: [importing()],
        "7": lambda: [gateway()],
    }


def machine() -> dict[str, Any]:
    """What a later run is to be compared by."""
    versions: dict[str, str | None] = {}
    for needed in requires("friendli-stream") or ():
        name = re.split(r"[^\w-]", needed)[0]
        if "extra" not in needed or "bench" in needed:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = None
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios, each taken in one run.")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="1 to 7; all if none is given")
    parser.add_argument("--rows", metavar="TEXT", default="", help="only the rows with this in their name")
    parser.add_argument("--check", action="store_true", help="only what has a budget; exit 1 if one is not kept")
    margin = f"how far beyond its budget a ratio may be; {MARGIN} if it is not given"
    parser.add_argument("--margin", metavar="RATIO", type=float, default=MARGIN, help=margin)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every value of every round")
    options = parser.parse_args()
    start = perf_counter()
    missed: list[str] = []
    record: dict[str, Any] = {**machine(), "check": options.check, "tables": {}}
    for name, make in tables(full=not options.check).items():
        if options.tables and name not in options.tables:
            continue
        for table in make():
            table.rows = {row: cells for row, cells in table.rows.items() if options.rows in row}
            for cell_name, cell in table.cells():
                if not options.check:
                    cell.measure()
                elif cell.budget is not None and not cell.settle(options.margin):
                    missed.append(
                        f"{table.title}: {cell_name}: {cell.shown()}, budget {cell.budget:g} ± {cell.margin - 1:.0%}"
                    )
            measured = {name: cell.record() for name, cell in table.cells() if cell.values is not None}
            if measured:
                print(table.text(), flush=True)
                record["tables"][table.title] = measured
    print(f"Median ± half of the middle half. {perf_counter() - start:.0f} s, {record['python']}, {record['machine']}")
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False))
    for line in missed:
        print(f"missed {TRIES} times: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
