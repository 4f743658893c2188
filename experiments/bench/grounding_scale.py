"""What a value index of a very large database costs: build, disk, memory, answers.

    python experiments/bench/grounding_scale.py [--distinct 2000000] [--encoder stand-in|minilm|DIR] [--folder DIR]
        [--questions 200] [--json]

A database of that many distinct texts is generated (eight tables of made-up names, titles, addresses and codes, with
keys, years and measurements beside them), every text is indexed and embedded, and questions are asked that quote a
stored text, half of them misspelt. Each stage runs in a process of its own, so that its peak memory is its own.
`--folder` keeps database, indices and the figures of every stage: a bench that was stopped goes on where it was (the
time of the stage that it was in is then that of its rest).

THE STAND-IN IS NO SENTENCE ENCODER. Embedding 2,000,000 texts takes hours of a processor, so that by default vectors
are sums of random directions, one for each trigram of a text: as many dimensions, neighbours where spelling is alike,
cheap. The directions span RANK dimensions, since sentence vectors fill few of theirs, too, and independent directions
have no structure for any approximate index to use. Its figures tell what everything around the encoder costs.
`--encoder minilm --distinct 20000` gives the real encoder's texts a second, from which the time of more texts follows
by division: it grows in proportion.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from grounding import Grounder, GroundingConfig, Request
from grounding.dense import misspell
from grounding.embed import CachedEncoder, Encoder, find_encoder
from grounding.index import ValueIndex
from grounding.io import atomic_write_text
from grounding.schema import Database

DIMENSION = 384  # MiniLM's
RANK = 32
BUCKETS = 32_749
TABLES = ("person", "company", "product", "place", "paper", "song", "device", "event")
WORDS = 60_000
STARTS = "b bl br c ch cl d dr f fl g gr h j k kr l m n p pl pr qu r s sch sh sl st t th tr v w y z".split()
VOWELS = "a e i o u ai ea ee ie oa ou y".split()
ENDS = "n r l s t m nd rt ck ll ng x rd th ss b d g p".split() + [""] * 8


class StandIn:
    """Unit vectors by spelling alone (see above)."""

    name = f"stand-in-trigrams-{DIMENSION}-{RANK}"

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        directions_BR = chance.standard_normal((BUCKETS, RANK), dtype=np.float32)
        self._directions_BD = directions_BR @ chance.standard_normal((RANK, DIMENSION), dtype=np.float32)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        from scipy.sparse import csr_matrix

        padded = [f"  {text.casefold()} " for text in texts]
        points = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
        owner = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
        inside = owner[:-2] == owner[2:]
        buckets = ((points[:-2] * 2_654_435_761 + points[1:-1] * 40_503 + points[2:] * 97) % BUCKETS)[inside]
        ones = np.ones(len(buckets), dtype=np.float32)
        counts_TB = csr_matrix((ones, (owner[:-2][inside], buckets)), shape=(len(padded), BUCKETS))
        vectors_TD = counts_TB @ self._directions_BD
        return vectors_TD / np.maximum(np.linalg.norm(vectors_TD, axis=1, keepdims=True), 1e-9)


def generate(path: Path, distinct: int) -> dict[str, Any]:
    """A database of `distinct` distinct texts; a fifth of its rows repeat one."""
    chance = random.Random(0)
    words = list(dict.fromkeys(_word(chance) for _ in range(2 * WORDS)))[:WORDS]
    picks = np.minimum(np.random.default_rng(0).zipf(1.25, 1 << 22) - 1, 1 << 40) % len(words)
    ranks = iter(np.resize(picks, 8 * distinct + 1000).tolist())
    seen: set[str] = set()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for number, table in enumerate(TABLES):
            connection.execute(
                f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT, since INTEGER, size REAL, kind TEXT)"
            )
            wanted = distinct // len(TABLES) + (number < distinct % len(TABLES))
            rows = _rows(chance, words, ranks, seen, wanted)
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return {"texts": len(seen), "bytes": path.stat().st_size}


def _rows(chance: random.Random, words: list[str], ranks: Iterator[int], seen: set[str], wanted: int
          ) -> Iterator[tuple]:
    names: list[str] = []
    kinds = ("new", "used", "sold", "lost")
    while len(names) < wanted:
        parts = [words[next(ranks)] for _ in range(chance.choice((1, 2, 2, 3, 3, 4)))]
        if chance.random() < 0.2:
            parts.append(f"{chance.choice('ABCDEFG')}-{chance.randrange(100_000)}")
        name = " ".join(parts).title()
        if name not in seen:
            seen.add(name)
            names.append(name)
    chosen = names + chance.choices(names, k=wanted // 4)
    for row, name in enumerate(chosen):
        yield row, name, chance.randrange(1950, 2025), chance.random() * 1000, chance.choice(kinds)


def _word(chance: random.Random) -> str:
    return "".join(
        chance.choice(STARTS) + chance.choice(VOWELS) + chance.choice(ENDS) for _ in range(chance.choice((1, 2, 2, 3)))
    )


class _Timed:
    """An encoder that knows how long it has worked, and on how many texts."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self._encoder, self.texts, self.seconds = encoder.name, encoder, 0, 0.0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        start = time.perf_counter()
        vectors = self._encoder.encode(texts)
        self.seconds += time.perf_counter() - start
        self.texts += len(texts)
        return vectors


def options(distinct: int) -> GroundingConfig:
    """Every text indexed and embedded."""
    return GroundingConfig(max_values_per_column=distinct, max_embedded_per_column=distinct, min_score=0.0)


def build(path: Path, cache: Path, which: str, distinct: int) -> dict[str, Any]:
    """Builds the index, or goes on with one that was stopped."""
    encoder = find(which)
    timed = _Timed(encoder) if encoder else None
    kept = CachedEncoder(timed, cache / "vectors") if timed else None
    start, cpu = time.perf_counter(), time.process_time()
    index = ValueIndex.open(Database.read(path), cache, kept, options(distinct), progress=True)
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    strings = index.manifest["counts"]["strings"]
    vectors = sum(file.stat().st_size for file in (cache / "vectors").glob("*")) if encoder else 0
    return {
        "strings": strings,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "values_per_cpu_s": strings / cpu_s,
        "encoded": timed.texts if timed else 0,
        "encoded_per_s": timed.texts / timed.seconds if timed and timed.texts else None,
        "bytes_a_value": sum(file.stat().st_size for file in index.folder.iterdir()) / strings,
        "bytes_a_value_of_cached_vectors": vectors / strings,
        "peak_mb": _peak_mb(),
        "dense": index.manifest["dense"],
    }


def ask(path: Path, cache: Path, which: str, distinct: int, questions: int) -> dict[str, Any]:
    """Times of the first answer and of the others, and how often the value that was meant is among ten."""
    asked = _questions(path, questions)
    start = time.perf_counter()
    grounder = Grounder(cache, find(which) or "none", options(distinct))
    grounder.ground(Request(asked[0][0], path))
    cold_ms = 1000 * (time.perf_counter() - start)
    wall_ms, cpu_ms, found = [], [], []
    for question, meant in asked:
        start, cpu = time.perf_counter(), time.process_time()
        values = grounder.ground(Request(question, path)).values
        wall_ms.append(1000 * (time.perf_counter() - start))
        cpu_ms.append(1000 * (time.process_time() - cpu))
        found.append(meant in [match.value for match in values])
    return {
        "questions": len(asked),
        "cold_ms": cold_ms,
        "wall_ms_p50_p95": np.percentile(wall_ms, [50, 95]).tolist(),
        "cpu_ms_p50_p95": np.percentile(cpu_ms, [50, 95]).tolist(),
        "found_exact": float(np.mean(found[::2])),
        "found_misspelt": float(np.mean(found[1::2])),
        "peak_mb": _peak_mb(),
    }


def _questions(path: Path, count: int) -> list[tuple[str, str]]:
    """(question, the text it means), every second one misspelt."""
    chance = random.Random(1)
    with sqlite3.connect(path) as connection:
        rows = {table: connection.execute(f"SELECT max(id) FROM {table}").fetchone()[0] for table in TABLES}
        asked = []
        for number in range(count):
            table = chance.choice(TABLES)
            row = (chance.randrange(rows[table]),)
            ((meant,),) = connection.execute(f"SELECT name FROM {table} WHERE id = ?", row).fetchall()
            spelt = misspell(meant, chance) if number % 2 else meant
            asked.append((f"How many of the {table} rows that were made since 1990 are called {spelt}?", meant))
    connection.close()
    return asked


def find(which: str) -> Encoder | None:
    """`stand-in`, or what `grounding --encoder` takes."""
    return StandIn() if which == "stand-in" else find_encoder(which)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(work: Callable[..., dict], *arguments: Any) -> dict[str, Any]:
    """A stage in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def benchmark(folder: Path, distinct: int, encoder: str, questions: int) -> dict[str, Any]:
    """All figures as plain data."""
    path, cache = folder / f"scale_{distinct}.sqlite", folder / "cache"
    figures = folder / f"figures_{distinct}_{encoder.replace('/', '_')}.json"
    report: dict[str, Any] = json.loads(figures.read_text()) if figures.exists() else {"encoder": encoder}

    def stage(title: str, work: Callable[..., dict], *arguments: Any) -> None:
        if title not in report:
            report[title] = apart(work, *arguments)
            atomic_write_text(figures, json.dumps(report))

    stage("database", generate, path, distinct)
    for which in dict.fromkeys(("none", encoder)):
        kind = "lexical" if which == "none" else "with embeddings"
        stage(f"build, {kind}", build, path, cache, which, distinct)
        stage(f"answers, {kind}", ask, path, cache, which, distinct, questions)
    return report


def table(report: dict[str, Any]) -> str:
    """The figures for a human."""
    lines = [f"encoder: {report['encoder']}"]
    if report["encoder"] == "stand-in":
        lines.append("THE VECTORS ARE NO SENTENCE ENCODER'S: trigrams' random directions, to time what is around it")
    for title, figures in report.items():
        if isinstance(figures, dict):
            lines += ["", title, *(f"  {name:34}{_figure(value)}" for name, value in figures.items())]
    return "\n".join(lines)


def _figure(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_figure, value))
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--distinct", type=int, default=2_000_000, metavar="N", help="texts (default: %(default)s)")
    parser.add_argument("--encoder", default="stand-in", help="stand-in, minilm or a folder (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=200, metavar="N", help="asked (default: %(default)s)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keeps the indices (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        report = benchmark(args.folder or Path(temporary), args.distinct, args.encoder, args.questions)
    print(json.dumps(report, indent=1) if args.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
