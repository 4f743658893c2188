"""The indices of many databases, in several processes.

Each process takes a database at a time and has an encoder of its own; the vectors' cache is common to all. The
processors are shared out among them: MiniLM with short texts gains little from a second thread (on two busy cores one
thread encoded 300 texts a second of processor time, two threads 165), so that processes are the better use of them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from grounding.errors import InputError
from grounding.grounded import GroundingConfig


@dataclass(frozen=True)
class Built:
    """What became of one database: counts, or an error."""

    path: Path
    counts: dict | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Job:
    cache: Path
    encoder: str
    config: GroundingConfig
    verify: bool
    progress: bool


def build_all(
    paths: Sequence[Path], cache: Path, encoder: str, config: GroundingConfig, workers: int, verify: bool = False
) -> list[Built]:
    """Opens the index of every database, which builds those that are not there; in the order of `paths`.

    Raises InputError for an unknown encoder. With one process each step of a build shows its progress.
    """
    from grounding.embed import find_encoder

    find_encoder(encoder)
    workers = min(workers, len(paths))
    job = _Job(cache, encoder, config, verify, progress=workers == 1)
    results = _in_this_process(paths, job) if workers == 1 else _in_processes(paths, job, workers)
    place = {path: number for number, path in enumerate(paths)}
    with tqdm(results, total=len(paths), unit="database", desc="indexing", file=sys.stderr) as bar:
        return sorted(bar, key=lambda result: place[result.path])


def _in_this_process(paths: Sequence[Path], job: _Job) -> Iterator[Built]:
    builder = _Builder(job)
    yield from map(builder.build, paths)


def _in_processes(paths: Sequence[Path], job: _Job, workers: int) -> Iterator[Built]:
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    context = multiprocessing.get_context("spawn")
    # The large ones first, so that no process is left alone with one at the end.
    order = sorted(paths, key=lambda path: -path.stat().st_size if path.exists() else 0)
    with ProcessPoolExecutor(workers, context, _start, (job, threads)) as pool:
        futures = {pool.submit(_work, path): path for path in order}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                path = futures[future]
                yield Built(path, error=f"{path}: not indexed, since a process was killed; try fewer --workers")


class _Builder:
    """One process's encoder, loaded when the first text needs it."""

    def __init__(self, job: _Job):
        from grounding.embed import CachedEncoder, find_encoder

        found = find_encoder(job.encoder)
        self._job = job
        self._encoder = CachedEncoder(found, job.cache / "vectors") if found else None

    def build(self, path: Path) -> Built:
        from grounding.build import misses
        from grounding.index import ValueIndex
        from grounding.schema import Database

        job = self._job
        try:
            database = Database.read(path)
            index = ValueIndex.open(database, job.cache, self._encoder, job.config, job.progress, job.verify)
        except InputError as error:
            return Built(path, error=str(error))
        index.close()
        return Built(path, {"db_id": database.db_id, "index": str(index.folder), **index.manifest["counts"]},
                     warnings=(*database.warnings, *misses(index.manifest["dense"])))


_builder: _Builder  # of a worker process


def _start(job: _Job, threads: int) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # torch and FAISS read it when they are loaded
    global _builder
    _builder = _Builder(job)


def _work(path: Path) -> Built:
    return _builder.build(path)
