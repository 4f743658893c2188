"""What one method costs and answers, measured in this process: its builds, or one round of its queries."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.bench.grounding_baselines.contenders import CONTENDERS, Contender
from experiments.bench.process import memory_mib
from grounding.embed import SentenceEncoder
from grounding.evaluate.value_task import CUTS, Item

# No questions of a task: whatever they leave in a cache helps none of those. A build and a round of queries have one
# each, both near a value of the probe database, so that also a method that remembers what it has encoded, or encodes
# candidates alone, has loaded its encoder before the clock starts.
BUILD_PROBE, QUERY_PROBE = "Is anything called Probe here?", "Are there Probes?"
LONGEST_RANKING = max(CUTS)


@dataclass
class EncodingClock:
    """Seconds spent in the sentence encoder so far, by whoever calls it."""

    wall: float = 0.0
    cpu: float = 0.0

    def attach(self) -> None:
        """From now on every `SentenceEncoder.encode` of the process counts."""
        encode = SentenceEncoder.encode

        def timed(encoder: SentenceEncoder, texts: Sequence[str]):
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return encode(encoder, texts)
            finally:
                self.wall += time.perf_counter() - wall
                self.cpu += time.process_time() - cpu

        SentenceEncoder.encode = timed


def build(name: str, folder: Path, probe: Path, databases: Sequence[Path]) -> dict[str, Any]:
    """Builds the index of each database; the probe database comes first, uncounted, and loads what is loaded once."""
    contender = CONTENDERS[name][1](folder, LONGEST_RANKING)
    contender.build(probe)
    contender.load(probe)
    contender.search(probe, BUILD_PROBE, "", LONGEST_RANKING)
    clock, before = EncodingClock(), disk_bytes(folder)
    clock.attach()
    wall, cpu = time.perf_counter(), cpu_seconds()
    for database in databases:
        contender.build(database)
    wall, cpu, size = time.perf_counter() - wall, cpu_seconds() - cpu, disk_bytes(folder) - before
    peak = memory_mib("VmHWM")  # before anything below asks for more
    values = 0
    for database in databases:
        contender.load(database)
        values += contender.indexed(database)
    return {"values": values, "wall_s": wall, "cpu_s": cpu, "encoding_cpu_s": clock.cpu, "encoding_wall_s": clock.wall,
            "bytes": size, "vectors_bytes": disk_bytes(folder / "vectors"), "peak_mib": peak}


def ask(name: str, folder: Path, probe: Path, databases: Sequence[Path], items: Sequence[Item]) -> dict[str, Any]:
    """Opens each index and asks it every question of its database once."""
    wall = time.perf_counter()
    contender = CONTENDERS[name][1](folder, LONGEST_RANKING)
    first_answer(contender, probe)
    start_s = time.perf_counter() - wall
    clock = EncodingClock()
    clock.attach()
    loads, found, queries = [], [], []
    for database in databases:
        wall, encoding = time.perf_counter(), clock.wall
        first_answer(contender, database)
        loads.append(time.perf_counter() - wall - (clock.wall - encoding))
    for item in items:
        encoding = clock.wall
        wall, cpu = time.perf_counter(), time.process_time()
        found.append(contender.search(item.database, item.question, item.evidence, LONGEST_RANKING))
        queries.append({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu,
                        "encoding_s": clock.wall - encoding})
    return {"start_s": start_s, "load_s": loads, "queries": queries, "found": found, "peak_mib": memory_mib("VmHWM")}


def first_answer(contender: Contender, database: Path) -> None:
    """Opens an index, and asks it a question, since some of it may be read only then."""
    contender.load(database)
    contender.search(database, QUERY_PROBE, "", LONGEST_RANKING)


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def cpu_seconds() -> float:
    """Of this process and its children that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
