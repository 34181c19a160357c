"""The benchmarks run, without any peer installed, and say what they measured; how long anything took fails no test."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import MARGIN, TRIES, Cell, Table

ROOT = Path(__file__).parents[1]
PEERS = [
    "anthropic",
    "openai",
    "friendli",
    "langchain_core",
    "litellm",
    "pydantic_ai",
    "jiter",
    "partial_json_parser",
    "ijson",
    "httpx_sse",
]


def run(*arguments: str, hidden: list[str]) -> subprocess.CompletedProcess[str]:
    """`python -m benchmarks` where some modules are not installed."""
    code = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({hidden})); sys.argv[1:] = {list(arguments)}; "
        "runpy.run_module('benchmarks', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("table", "rows", "ours"),
    [
        ("1", "chat text", {"orjson.loads", "step", "feed"}),
        ("3", "2 KB, fragments of 64", {"string", "escaped string", "records", "nested"}),
        ("3", "2 KB, records", set()),
        ("4", "chat text, 64 KiB", {"to message", "to events"}),
    ],
)
def test_without_peers(table: str, rows: str, ours: set[str], tmp_path: Path) -> None:
    """Benchmarks: --json FILE has every value of every round; a peer that is not installed is shown as absent."""
    file = tmp_path / "figures.json"
    done = run(table, "--rows", rows, "--json", str(file), hidden=PEERS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "absent" in done.stdout
    record: dict[str, Any] = json.loads(file.read_text())
    assert sys.version.split()[0] in record["python"]
    assert record["versions"]["orjson"]
    assert not record["check"]
    assert record["tables"]
    for title, cells in record["tables"].items():
        assert title in done.stdout
        for name, cell in cells.items():
            assert rows in name
            column = name.rpartition(", ")[2]
            measured = column in ours and "faster" not in title
            assert measured == bool(cell["values"]), name
            assert all(value > 0 for value in cell["values"])
            assert measured == (cell["median"] is not None)


def test_check_names_what_it_missed(tmp_path: Path) -> None:
    """Benchmarks: --check measures only what has a budget, and the record says that it was one."""
    file = tmp_path / "figures.json"
    done = run("4", "--check", "--rows", "chat text, 64 KiB", "--json", str(file), hidden=PEERS)
    record = json.loads(file.read_text())
    assert record["check"]
    assert [name for cells in record["tables"].values() for name in cells] == ["chat text, 64 KiB chunks, to message"]
    assert (done.returncode == 1) == ("missed" in done.stderr)


@pytest.mark.parametrize("least", [False, True])
def test_a_budget_is_missed_only_by_its_margin_in_every_try(least: bool) -> None:
    """Benchmarks: a budget must never flake: one try within it, by the better half of its rounds, is enough."""
    kept, missed = (10.0, 10 * MARGIN * 1.01) if not least else (10.0, 10 / MARGIN / 1.01)
    tries = iter([[missed] * 3] * (TRIES - 1) + [[missed, kept, kept]])
    assert Cell(lambda: next(tries), 10.0, least=least).settle()
    count = itertools.count()
    assert not Cell(lambda: [missed for _ in range(next(count) + 1)], 10.0, least=least).settle()
    assert next(count) == TRIES
    assert Cell(list, 10.0, least=least).settle(), "what is not installed misses nothing"


def test_a_table_tells_budgets_and_what_is_wanted() -> None:
    """Benchmarks: a table is short: medians with spread, a budget once a row, columns nobody filled left out."""
    cells = {"a": Cell(lambda: [1.0, 2.0, 3.0], 5.0, 4.0), "b": Cell(list), "not measured": Cell(list, 9.0)}
    table = Table("T", "note", {"row": cells, "other": {"a": Cell(list, 9.0)}})
    cells["a"].measure()
    cells["b"].measure()
    assert table.text().splitlines() == [
        "T",
        "note",
        "",
        "     a          b       budget  wanted",
        "row  2.00 ±25%  absent  ≤5.00   ≤4.00",
    ]
