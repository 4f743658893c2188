"""What the sandbox costs: scoring Spider's dev set against a bare sqlite3 loop.

    python experiments/bench/sql.py --root SPIDER --pred FILE [--repeats 5] [--leave-out DB ...] [--json]

Three questions, each answered by medians over interleaved repetitions:

1. processor time per statement (this process and its children, worker start included) of running every gold
   query and prediction and comparing their results: the sandbox at 2 workers, against two floors in one
   process without any protection: sqlite3 with a connection a statement, as the official evaluators do, and
   with one connection a database kept open, which nothing that isolates statements can have;
2. statements per second against the number of workers;
3. a second scoring of the same data, its outcomes kept on disk by the first (which runs a statement that
   occurs twice only once).

FILE holds one prediction a line in the order of SPIDER/dev.json. A mean is dominated by a few heavy
statements; --leave-out shows what is left without a database (wta_1 of the real set is a heavy one).
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from serl.data.spider import load_spider
from serl.sql.cache import OutcomeCache
from serl.sql.compare import bird_ex
from serl.sql.outcome import Outcome
from serl.sql.sandbox import Sandbox

WORKERS = 2
POOL_SIZES = (1, 2, 4, 8)
Pair = tuple[Path, str, str]  # database, gold SQL, predicted SQL


def load_pairs(root: Path, predictions: Path, leave_out: Sequence[str]) -> list[Pair]:
    """Gold and prediction of every question whose database is there."""
    predicted = predictions.read_text(encoding="utf-8").rstrip("\n").split("\n")
    pairs = []
    for example in load_spider(root, "dev"):
        if example.db_id not in leave_out:
            prediction = predicted[int(example.question_id)].split("\t")[0]
            pairs.append((example.db_path, example.gold_sql, prediction))
    return pairs


def statements(pairs: Sequence[Pair]) -> list[tuple[Path, str]]:
    """Gold and prediction in turn."""
    return [(database, sql) for database, *both in pairs for sql in both]


def score_bare(pairs: Sequence[Pair], keep_open: bool) -> int:
    """The floor: questions whose two results are the same set of rows."""
    connections: dict[Path, sqlite3.Connection] = {}

    def rows(database: Path, sql: str) -> set | None:
        connection = connections.get(database) or sqlite3.connect(database)
        if keep_open:
            connections[database] = connection
        try:
            return set(connection.execute(sql).fetchall())
        except sqlite3.Error:
            return None
        finally:
            if not keep_open:
                connection.close()

    results = ((rows(database, gold), rows(database, predicted)) for database, gold, predicted in pairs)
    correct = sum(gold is not None and gold == predicted for gold, predicted in results)
    for connection in connections.values():
        connection.close()
    return correct


def score_in_sandbox(pairs: Sequence[Pair], workers: int = WORKERS) -> int:
    """The same with every protection on."""
    with Sandbox(workers) as sandbox:
        return count_matches(sandbox.run_many(statements(pairs)))


def score_with_cache(pairs: Sequence[Pair], cache: Path) -> int:
    """The same with outcomes kept on disk."""
    with Sandbox(WORKERS) as sandbox:
        return count_matches(OutcomeCache(cache, sandbox).outcomes(statements(pairs)))


def score_with_gold(pairs: Sequence[Pair], cache: Path) -> int:
    """The same with only gold kept on disk, as in training and in scoring a new model."""
    with Sandbox(WORKERS) as sandbox:
        gold = OutcomeCache(cache, sandbox).outcomes([(database, sql) for database, sql, _ in pairs])
        predicted = sandbox.run_many([(database, sql) for database, _, sql in pairs])
        return count_matches([outcome for pair in zip(gold, predicted) for outcome in pair])


def count_matches(outcomes: Sequence[Outcome]) -> int:
    """Questions whose prediction matches by BIRD's rule."""
    return sum(bird_ex(predicted, gold).match for gold, predicted in zip(outcomes[::2], outcomes[1::2]))


def measure(work: Callable[[], int]) -> dict[str, float]:
    """Seconds of wall clock and of processor (children that ended meanwhile included), and what came out."""
    cpu, wall = _cpu_seconds(), time.perf_counter()
    correct = work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": _cpu_seconds() - cpu, "correct": correct}


def _cpu_seconds() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def interleaved(variants: dict[str, Callable[[], int]], repeats: int) -> dict[str, list[dict[str, float]]]:
    """Every variant once a round, so that a busy machine is busy for all of them."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for number in range(repeats):
        for name, work in variants.items():
            print(f"\rround {number + 1} of {repeats}: {name:24}", end="", file=sys.stderr, flush=True)
            runs[name].append(measure(work))
    print(file=sys.stderr)
    return runs


def benchmark(pairs: Sequence[Pair], repeats: int) -> dict[str, Any]:
    """All figures as plain data."""
    count = 2 * len(pairs)
    with tempfile.TemporaryDirectory() as folder:
        gold = Path(folder) / "gold.jsonl"
        score_with_gold(pairs, gold)  # fills the cache
        caches = iter(Path(folder) / f"{number}.jsonl" for number in range(repeats))
        current: list[Path] = []

        def first() -> int:
            current[:] = [next(caches)]
            return score_with_cache(pairs, current[0])

        runs = interleaved(
            {
                "floor": lambda: score_bare(pairs, keep_open=False),
                "floor, kept open": lambda: score_bare(pairs, keep_open=True),
                "sandbox": lambda: score_in_sandbox(pairs),
                "sandbox, gold cached": lambda: score_with_gold(pairs, gold),
                "first scoring": first,
                "second scoring": lambda: score_with_cache(pairs, current[0]),
            },
            repeats,
        )
        pools = interleaved(
            {str(size): lambda size=size: score_in_sandbox(pairs, size) for size in POOL_SIZES}, repeats
        )

    def ratio(above: str, below: str, field: str) -> float:
        return statistics.median(a[field] / b[field] for a, b in zip(runs[above], runs[below]))

    return {
        "statements": count,
        "repeats": repeats,
        "workers": WORKERS,
        "scoring": {
            name: {
                "cpu_us_per_statement": 1e6 * statistics.median(run["cpu_s"] for run in rows) / count,
                "wall_s": statistics.median(run["wall_s"] for run in rows),
                "correct": rows[0]["correct"],
            }
            for name, rows in runs.items()
        },
        "ratios": {
            "cpu: sandbox / floor": ratio("sandbox", "floor", "cpu_s"),
            "cpu: sandbox, gold cached / floor": ratio("sandbox, gold cached", "floor", "cpu_s"),
            "cpu: sandbox / floor, kept open": ratio("sandbox", "floor, kept open", "cpu_s"),
            "wall: sandbox / floor": ratio("sandbox", "floor", "wall_s"),
            "wall: first / second scoring": ratio("first scoring", "second scoring", "wall_s"),
            "cpu: first / second scoring": ratio("first scoring", "second scoring", "cpu_s"),
        },
        "statements_per_second": {
            size: count / statistics.median(run["wall_s"] for run in rows) for size, rows in pools.items()
        },
    }


def table(report: dict[str, Any]) -> str:
    """The figures for a human."""
    lines = [f"{report['statements']} statements, median of {report['repeats']}", ""]
    lines.append(f"{'scoring':24}{'cpu µs/statement':>18}{'wall s':>10}{'correct':>10}")
    for name, row in report["scoring"].items():
        lines.append(f"{name:24}{row['cpu_us_per_statement']:18.0f}{row['wall_s']:10.2f}{row['correct']:10d}")
    lines += ["", *(f"{name:40}{value:8.2f}" for name, value in report["ratios"].items())]
    rates = ", ".join(f"{size}: {rate:.0f}" for size, rate in report["statements_per_second"].items())
    return "\n".join([*lines, "", f"statements per second by workers   {rates}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, required=True, metavar="DIR", help="Spider's folder")
    parser.add_argument("--pred", type=Path, required=True, metavar="FILE", help="predictions for its dev split")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="rounds (default: 5)")
    parser.add_argument("--leave-out", action="append", default=[], metavar="DB", help="a database to leave out")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    args = parser.parse_args(argv)
    report = benchmark(load_pairs(args.root, args.pred, args.leave_out), args.repeats)
    print(json.dumps(report, indent=1) if args.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
