"""What a question, a gold result and a database cost, and so a corpus of millions: memory, disk, time.

    python experiments/bench/corpus.py [--root DIR --format spider --split train] [--questions 10000000]
        [--databases 16000] [--values 1000] [--prompt 4736] [--sample 1000] [--json]

Measured on a split that is here (by default minibird, generated anew), for `--sample` of its questions and all
databases of these, in one process:

    question   the reader's memory an Example, in the end and at most while reading; CPU seconds
    gold       `serl.sql.cache`: bytes on disk, memory once loaded, CPU seconds to load, an entry; the statement's own
               milliseconds
    index      values without vectors (grounding.encoder none of the library): bytes and CPU seconds a value; files,
               bytes and CPU seconds a database; CPU seconds to open one that is built and ask, and to ask again
    prompt     memory of a token of a prepared question

Below it stands what `--questions` on `--databases` with `--values` each would take, by proportion: figures of databases
and gold results as they are here. Memory is what Python allocates (tracemalloc).
"""

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from grounding import Grounder, Request
from serl.data import load
from serl.data.example import Example


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="of the data (default: minibird, generated anew)")
    parser.add_argument("--format", default="bird", help="of the data (default: %(default)s)")
    parser.add_argument("--split", default="train", help="default: %(default)s")
    parser.add_argument("--sample", type=int, default=1000, help="questions to measure with (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=10_000_000, help="of the corpus (default: %(default)s)")
    parser.add_argument("--databases", type=int, default=16_000, help="of the corpus (default: %(default)s)")
    parser.add_argument("--values", type=int, default=1000, help="distinct texts of each (default: %(default)s)")
    parser.add_argument("--prompt", type=int, default=4736, help="tokens of a prompt (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    total = scaled(found, args)
    print(json.dumps({"measured": found, "corpus": total}) if args.json else table(found, total))
    return 0


def measure(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Costs of one: bytes, seconds, milliseconds."""
    root = args.root
    if root is None:
        from serl.data.minibird import generate

        root = folder / "minibird"
        generate(root)
    found: dict[str, float] = {}
    with tqdm(total=4, desc="corpus", unit="part") as progress:
        examples, used = traced(lambda: load(args.format, root, args.split))
        found |= {f"question: {name}": value / len(examples) for name, value in used.items()}
        progress.update()
        step = max(1, len(examples) // args.sample)
        chosen = examples[::step][: args.sample]
        for measured in (gold, index, prompt):
            found |= measured(chosen, folder)
            progress.update()
    return found


def traced(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What `work` gives; bytes it leaves and at most had; CPU seconds, of another time, since tracing is slow."""
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    tracemalloc.start()
    try:
        result = work()
        left, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return result, {"bytes": left, "bytes at most": most, "CPU seconds": seconds}


def gold(examples: list[Example], folder: Path) -> dict[str, float]:
    """Of a gold result."""
    from serl.sql.gold import GoldCache
    from serl.sql.sandbox import Sandbox

    path = folder / "gold.jsonl"
    with Sandbox(workers=1) as sandbox:
        outcomes = GoldCache(path, sandbox).outcomes(examples).values()
        _, used = traced(lambda: GoldCache(path, sandbox))
    sizes = [len(line) for line in path.read_bytes().splitlines()]
    return {"gold: bytes on disk": fmean(sizes), "gold: bytes on disk, median": median(sizes),
            "gold: bytes on disk, most": max(sizes), "gold: bytes": used["bytes"] / len(sizes),
            "gold: CPU seconds to load": used["CPU seconds"] / len(sizes),
            "gold: milliseconds to run": fmean(outcome.ms for outcome in outcomes)}


def index(examples: list[Example], folder: Path) -> dict[str, float]:
    """Of a value and a database: the first question about each is asked by three grounders, one after another."""
    first = list({example.db_path: example for example in examples}.values())
    asked = [Request(example.question, example.db_path, example.evidence) for example in first]
    seconds: list[float] = []
    for rounds in (1, 2):  # build and ask; open and ask, and ask again
        grounder = Grounder(folder / "index", "none")
        for _ in range(rounds):
            start = time.process_time()
            for request in asked:
                grounder.ground(request)
            seconds.append((time.process_time() - start) / len(first))
    values = sum(grounder.open_all(example.db_path).index.manifest["counts"]["cells"] for example in first)
    files = [path for path in (folder / "index").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    built = seconds[0] - seconds[1]
    return {"index: databases": len(first), "index: values": values, "index: bytes a value": size / values,
            "index: CPU seconds a value": built * len(first) / values,
            "index: files a database": len(files) / len(first), "index: bytes a database": size / len(first),
            "index: CPU seconds a database": built,
            "index: CPU seconds to open and ask": seconds[1], "index: CPU seconds to ask": seconds[2]}


def prompt(examples: list[Example], folder: Path) -> dict[str, float]:
    """Of a token: ids as `serl.task.Question` has them."""
    from transformers import AutoTokenizer

    from serl.agent.env import Environment
    from serl.config import Config
    from serl.model import EMBEDDED

    env = Environment.build(AutoTokenizer.from_pretrained(str(EMBEDDED)), Config().agent, Config().model.max_length)
    ids, used = traced(lambda: [tuple(env.prompt_ids(example, "")) for example in examples])
    return {"prompt: bytes a token": used["bytes"] / sum(map(len, ids)),
            "prompt: CPU seconds to encode without schema": used["CPU seconds"] / len(ids)}


def scaled(found: dict[str, float], args: argparse.Namespace) -> dict[str, float]:
    """The corpus, by proportion: gigabytes and hours."""
    questions, databases = args.questions, args.databases
    return {
        "questions, GB of memory": questions * found["question: bytes"] / 1e9,
        "questions, GB of memory while read": questions * found["question: bytes at most"] / 1e9,
        "questions, hours to read": questions * found["question: CPU seconds"] / 3600,
        "questions, hours to encode without schema": (
            questions * found["prompt: CPU seconds to encode without schema"] / 3600),
        "gold, GB on disk": questions * found["gold: bytes on disk"] / 1e9,
        "gold, GB of memory": questions * found["gold: bytes"] / 1e9,
        "gold, hours to load": questions * found["gold: CPU seconds to load"] / 3600,
        "gold, hours in SQLite": questions * found["gold: milliseconds to run"] / 3.6e6,
        "index, GB by values": databases * args.values * found["index: bytes a value"] / 1e9,
        "index, hours by values": databases * args.values * found["index: CPU seconds a value"] / 3600,
        "index, GB by databases": databases * found["index: bytes a database"] / 1e9,
        "index, hours by databases": databases * found["index: CPU seconds a database"] / 3600,
        "index, files": databases * found["index: files a database"],
        "prepared, MB a question": args.prompt * found["prompt: bytes a token"] / 1e6,
    }


def table(found: dict[str, float], total: dict[str, float]) -> str:
    rows = [*found.items(), ("", None), *total.items()]
    return "\n".join(f"{name:46}{'' if value is None else format(value, ',.4g'):>14}" for name, value in rows)


if __name__ == "__main__":
    sys.exit(main())
