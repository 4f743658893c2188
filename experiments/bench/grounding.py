"""Finding the stored values that a question means: grounding against plain implementations of published ways.

    python experiments/bench/grounding.py --task FILE --root DIR [--task FILE --root DIR ...] [--json]

FILE is a value task (see `grounding/evaluate/value_task.py`), DIR the folder its databases' paths start from; one DIR
serves all tasks. The methods are those of `grounding_baselines/`, each with its paper and its departures, and grounding
with and without its sentence encoder:

    chess, chess-all   MinHash LSH, on the columns that CHESS keeps, and on all
    codes              BM25, then longest common substring
    bm25, trigram, dense
    ours-lexical, ours

Every method has processes of its own: one that builds, then one a round that opens its indices and asks every question
once; rounds are interleaved, so that a busy machine is busy for all, and each starts from the indices as built, so that
nobody remembers a question. What is loaded once (libraries, encoder) is loaded before the clock starts. Reported:

    recall       strict (table, column, value) at 1, 5, 10, 20, by kind of match, with 95% bootstrap intervals;
                 of all databases, and of those that hold many values
    values/s     (table, column, value) indexed a CPU second of the build; and the same without the encoder's seconds
    bytes/value  of the index on disk, and of a store of vectors beside it, if there is one
    MiB          peak memory of the process that builds, and of the one that asks; libraries and encoder included
    start        from nothing to the first answer in a new process, on a database of two values: mostly the encoder
    load         to open a database's index and answer a first question, without the encoder's time; files in the page
                 cache; median of the databases
    p50, p95     of a query's wall-clock time, its mentions encoded; medians of the rounds for each question

grounding's queries also link tables and columns; its baselines do not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and this file would hide the package of its name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from grounding.errors import InputError
from grounding.evaluate.value_task import Item, read_task
from grounding.io import atomic_write_text

BASELINES = Path("experiments/bench/grounding_baselines")
METHODS = "chess,chess-all,codes,bm25,trigram,dense,ours-lexical,ours"


def main(argv: Sequence[str] | None = None) -> int:
    from experiments.bench.grounding_baselines.report import tables

    args = parse(argv)
    try:
        tasks = read_tasks(args)
        if args.worker:
            print(json.dumps(work(args, tasks)))
            return 0
        report = benchmark(args, tasks)
        print(json.dumps(report) if args.json else tables(report))
    except InputError as error:
        print(f"grounding.py: {error}", file=sys.stderr)
        return 2
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", type=Path, action="append", required=True, metavar="FILE", help="a value task")
    parser.add_argument("--root", type=Path, action="append", required=True, metavar="DIR",
                        help="folder of a task's databases; one for all tasks, or one for each")
    parser.add_argument("--methods", default=METHODS, help="with commas between (default: %(default)s)")
    parser.add_argument("--large", type=int, default=3000, metavar="N",
                        help="databases with at least N values are reported apart too (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of queries (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of a process (default: %(default)s)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep the indices here; a later run with the same "
                        "databases and code shows their build's figures again and measures queries only")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--worker", choices=("build", "ask"), help=argparse.SUPPRESS)  # one method, in its own process
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # where the worker's indices are
    parser.add_argument("--probe", type=Path, help=argparse.SUPPRESS)  # a database to warm up with
    return parser.parse_args(argv)


def read_tasks(args: argparse.Namespace) -> dict[str, list[Item]]:
    """The items of each task, by its file's name."""
    if len(args.root) not in (1, len(args.task)):
        raise InputError(f"{len(args.task)} tasks and {len(args.root)} roots; give one root, or one for each task")
    roots = args.root * len(args.task) if len(args.root) == 1 else args.root
    tasks = {str(path): read_task(path, root) for path, root in zip(args.task, roots)}
    if empty := [path for path, items in tasks.items() if not items]:
        raise InputError(f"{empty[0]}: a task without items")
    return tasks


def work(args: argparse.Namespace, tasks: dict[str, list[Item]]) -> dict[str, Any]:
    """What a process of one method does."""
    from experiments.bench.grounding_baselines.measure import ask, build

    items = [item for own in tasks.values() for item in own]
    if args.worker == "build":
        return build(args.methods, args.folder, args.probe, databases_of(items))
    return ask(args.methods, args.folder, args.probe, databases_of(items), items)


def databases_of(items: Sequence[Item]) -> list[Path]:
    return list(dict.fromkeys(item.database for item in items))


def benchmark(args: argparse.Namespace, tasks: dict[str, list[Item]]) -> dict[str, Any]:
    """All figures as plain data."""
    from experiments.bench.grounding_baselines.cells import read_cells
    from experiments.bench.grounding_baselines.contenders import CONTENDERS
    from experiments.bench.grounding_baselines.report import build_rates, query_times, recall_of

    methods = [name for name in args.methods.split(",") if name]
    if unknown := sorted({*methods} - {*CONTENDERS}):
        raise InputError(f"no method {unknown[0]!r}; there are {', '.join(CONTENDERS)}")
    if not methods or args.rounds < 1:
        raise InputError("nothing to measure: give at least one method and one round")
    items = [item for own in tasks.values() for item in own]
    values = {database: len(read_cells(database)) for database in databases_of(items)}
    built, asked = measure(args, methods, list(values))
    groups = group(items, tasks, {database for database, count in values.items() if count >= args.large}, args.large)
    return {
        "options": {"tasks": list(tasks), "rounds": args.rounds, "threads": args.threads, "large": args.large},
        "values": {str(database): count for database, count in values.items()},
        "groups": {title: size_of([items[place] for place in places]) for title, places in groups.items()},
        "methods": {name: {
            "title": CONTENDERS[name][0],
            "recall": {title: recall_of(items, asked[name][0]["found"], places) for title, places in groups.items()},
            "build": built[name] | build_rates(built[name]),
            "query": query_times(asked[name]),
        } for name in methods},
    }


def measure(args: argparse.Namespace, methods: Sequence[str], databases: Sequence[Path]
            ) -> tuple[dict[str, dict], dict[str, list[dict]]]:
    """The figures of each method's build, and of each of its rounds of queries."""
    built, asked = {}, {name: [] for name in methods}
    with tempfile.TemporaryDirectory() as temporary:
        key = build_key(databases, args.threads)
        folders = {name: (args.cache or Path(temporary)) / f"{name}-{key}" for name in methods}
        for name in methods:
            built[name] = build_or_reuse(args, name, folders[name])
        for number in range(args.rounds):
            for name in methods:
                print(f"round {number + 1} of {args.rounds}", end=": ", file=sys.stderr)
                copy = Path(temporary) / "copy"
                shutil.copytree(folders[name] / "indices", copy)
                asked[name].append(run_worker(args, "ask", name, copy, folders[name]))
                shutil.rmtree(copy)
                if asked[name][-1]["found"] != asked[name][0]["found"]:
                    sys.exit(f"grounding.py: {name} answers differently in different rounds")
    return built, asked


def group(items: Sequence[Item], tasks: dict[str, list[Item]], large: set[Path], least: int) -> dict[str, list[int]]:
    """Places of the items whose recall is reported together, by a title."""
    groups = {"all databases": list(range(len(items)))}
    if len(tasks) > 1:
        task_of = [path for path, own in tasks.items() for _ in own]
        groups |= {path: [place for place, own in enumerate(task_of) if own == path] for path in tasks}
    if large:
        title = f"databases of {least} values or more"
        groups[title] = [place for place, item in enumerate(items) if item.database in large]
    return groups


def build_key(databases: Iterable[Path], threads: int) -> str:
    """A hash of what a build's figures depend on: databases, threads, the code of grounding and of the baselines."""
    root = Path(__file__).resolve().parents[2]
    code = [*sorted((root / "grounding").rglob("*.py")), *sorted((root / BASELINES).glob("*.py"))]
    parts = [str(threads), *(path.read_text(encoding="utf-8") for path in code)]
    for database in databases:
        stat = database.stat()
        parts.append(f"{database.resolve()} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def build_or_reuse(args: argparse.Namespace, name: str, folder: Path) -> dict[str, float]:
    """The figures of a build; those of the run that made the folder, where it is complete."""
    figures = folder / "build.json"
    if not figures.exists():
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
        folder.mkdir(parents=True)
        write_probe(folder / "probe.sqlite")
        atomic_write_text(figures, json.dumps(run_worker(args, "build", name, folder / "indices", folder)))
    return json.loads(figures.read_text(encoding="utf-8"))


def write_probe(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (name TEXT); INSERT INTO t VALUES ('Probe'), ('Another');")
    connection.close()


def run_worker(args: argparse.Namespace, what: str, name: str, indices: Path, folder: Path) -> dict:
    """The figures of one method's process; `folder` is where its probe is."""
    print(f"{what} {name}", file=sys.stderr)
    tasks = [f"--task={path}" for path in args.task] + [f"--root={path}" for path in args.root]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(args.threads))
    done = subprocess.run([sys.executable, __file__, f"--worker={what}", f"--methods={name}", f"--folder={indices}",
                           f"--probe={folder / 'probe.sqlite'}", *tasks], stdout=subprocess.PIPE,
                          env=os.environ | threads | {"TOKENIZERS_PARALLELISM": "false"})
    if done.returncode:
        sys.exit(f"grounding.py: the process that was to {what} {name} ended with {done.returncode}; see above")
    return json.loads(done.stdout)


def size_of(items: Sequence[Item]) -> dict[str, int]:
    return {"databases": len(databases_of(items)), "questions": len(items),
            "targets": sum(len(item.targets) for item in items)}


if __name__ == "__main__":
    sys.exit(main())
