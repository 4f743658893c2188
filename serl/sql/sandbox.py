"""Running untrusted SQL: a pool of worker processes that can be killed.

    with Sandbox(workers=2) as sandbox:
        outcome = sandbox.run("shop.sqlite", "SELECT count(*) FROM item")

Every statement ends in a typed Outcome within `timeout_s + 2 * grace_s` of reaching a worker. A worker
that hangs or dies is replaced, and no statement but its own notices. See worker.py for the protections.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from serl.sql.limits import DEFAULT_LIMITS, Limits
from serl.sql.outcome import Outcome, Status
from serl.sql.process import WorkerDied, WorkerProcess, WorkerStuck

__all__ = ["Limits", "Sandbox"]

_Job = tuple[Path | str, str]  # database file, SQL


class Sandbox:
    """A pool of `workers` processes. All methods may be called from any thread; close it, or use `with`."""

    def __init__(self, workers: int = 2, limits: Limits = DEFAULT_LIMITS):
        if workers < 1:
            raise ValueError(f"a sandbox needs at least one worker, not {workers}")
        self.workers = workers
        self.limits = limits
        self._closed = False
        self._workers = [WorkerProcess(limits) for _ in range(workers)]
        self._idle: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        for worker in self._workers:
            worker.start()
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="serl-sql")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, db_path: Path | str, sql: str) -> Outcome:
        """Run one statement and wait for its outcome."""
        self._check_open()
        # A worker that dies without a word may have been hit from outside (the system's out-of-memory
        # killer, an operator), so the statement gets a second try. Dying twice in a row stays ours.
        for _ in range(2):
            worker = self._idle.get()
            try:
                status, *fields = worker.ask(str(db_path), sql)
                return Outcome(Status(status), *fields)
            except WorkerStuck:
                return self._killed()
            except WorkerDied as death:
                if death.alarm:
                    return self._killed()
                message = str(death)
            except OSError as error:
                message = f"no worker process: {error}"
            finally:
                self._idle.put(worker)
        return Outcome(Status.INFRASTRUCTURE, error=message)

    def run_many(self, jobs: Iterable[_Job]) -> list[Outcome]:
        """Run statements in parallel over the workers; outcomes in the order of the jobs."""
        return list(self.iter_many(jobs))

    def iter_many(self, jobs: Iterable[_Job]) -> Iterator[Outcome]:
        """As run_many, but hands out each outcome as soon as it and all before it are there."""
        self._check_open()
        return self._threads.map(lambda job: self.run(*job), list(jobs))

    async def arun(self, db_path: Path | str, sql: str) -> Outcome:
        """As run, without blocking the event loop. A cancelled call that runs already ends by itself."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.run, db_path, sql)

    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def close(self) -> None:
        """Let running statements of this pool's own threads end, drop waiting ones, stop the workers."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.kill()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the sandbox is closed")

    def _killed(self) -> Outcome:
        limits = self.limits
        message = f"killed {limits.grace_s:g} s after the limit of {limits.timeout_s:g} s"
        return Outcome(Status.TIMEOUT, error=message, ms=1000 * (limits.timeout_s + limits.grace_s))
