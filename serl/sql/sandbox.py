"""Running untrusted SQL: a pool of worker processes that can be killed.

    with Sandbox(workers=2) as sandbox:
        outcome = sandbox.run("shop.sqlite", "SELECT count(*) FROM item")

Every statement ends in a typed Outcome within `timeout_s + 2 * grace_s` of reaching a worker. A worker
that hangs or dies is replaced, and no statement but its own notices. See worker.py and executors/ for the
protections.

`sandbox.submit(...)` gives the outcome later. From a coroutine, `await sandbox.arun(...)`: the event loop stays free.
A cancelled statement stops at once, whether it still waits for a worker or already has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from serl.sql.executors import check_installed
from serl.sql.limits import DEFAULT_LIMITS, Limits
from serl.sql.outcome import Outcome, Status
from serl.sql.process import WorkerDied, WorkerProcess, WorkerStuck

__all__ = ["Limits", "Sandbox"]

_Job = tuple[Path | str, str]  # database, SQL


@dataclass(frozen=True)
class Query:
    """A statement on its way: `outcome` has its result one day; `cancel` ends it, of no effect if it has ended."""

    outcome: Future[Outcome]
    cancel: Callable[[], None]


class Sandbox:
    """A pool of `workers` processes. All methods may be called from any thread; close it, or use `with`.

    It belongs to the process that made it: one that was forked from it would read answers to the other's
    statements, and gets a RuntimeError instead.

    `dialect` is sqlite, duckdb or postgres. A database is a file, for postgres a connection string
    ("host=... dbname=... user=..." or "postgresql://..."). InputError where the dialect's package is absent.
    """

    def __init__(self, workers: int = 2, limits: Limits = DEFAULT_LIMITS, dialect: str = "sqlite"):
        if workers < 1:
            raise ValueError(f"a sandbox needs at least one worker, not {workers}")
        check_installed(dialect)
        self.workers = workers
        self.limits = limits
        self.dialect = dialect
        self._owner = os.getpid()
        self._closed = False
        self._workers = [WorkerProcess(limits, dialect) for _ in range(workers)]
        self._idle: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        for worker in self._workers:
            worker.start()
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="serl-sql")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, database: Path | str, sql: str) -> Outcome:
        """Run one statement and wait for its outcome."""
        self._check_open()
        return self._serve(_Call(str(database), sql))

    def run_many(self, jobs: Iterable[_Job]) -> list[Outcome]:
        """Run statements in parallel over the workers; outcomes in the order of the jobs."""
        return list(self.iter_many(jobs))

    def iter_many(self, jobs: Iterable[_Job]) -> Iterator[Outcome]:
        """As run_many, but hands out each outcome as soon as it and all before it are there."""
        self._check_open()
        jobs = list(jobs)
        waiting = iter(range(len(jobs)))  # shared by the threads, each of which takes the next
        done: queue.SimpleQueue = queue.SimpleQueue()

        def drive() -> None:
            for index in waiting:
                done.put((index, self.run(*jobs[index])))

        # Not one task a statement: handing over a task costs as much as a short query.
        for _ in range(min(self.workers, len(jobs))):
            self._threads.submit(drive).add_done_callback(lambda future: done.put((None, future)))
        return _in_order(waiting, done, len(jobs))

    def submit(self, database: Path | str, sql: str) -> Query:
        """As run, without waiting."""
        self._check_open()
        call = _Call(str(database), sql)
        return Query(self._threads.submit(self._serve, call), call.cancel)

    async def arun(self, database: Path | str, sql: str) -> Outcome:
        """As run, without blocking the event loop. Cancelled, it gives its worker back or never takes one."""
        query = self.submit(database, sql)
        try:
            return await asyncio.wrap_future(query.outcome)
        finally:
            query.cancel()

    def pids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def close(self) -> None:
        """Let running statements end, drop waiting ones (in `run`: RuntimeError), stop the workers."""
        if os.getpid() != self._owner:
            return
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)
        try:
            for _ in self._workers:
                self._idle.get()  # one that still serves a `run` comes when that has ended
        finally:
            for worker in self._workers:
                worker.kill()
                self._idle.put(worker)  # for those who wait in `run`, and for another close()

    def _check_open(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError("the sandbox belongs to the process that made it; make another after a fork")
        if self._closed:
            raise RuntimeError("the sandbox is closed")

    def _serve(self, call: _Call) -> Outcome:
        # A worker that dies without a word may have been hit from outside (the system's out-of-memory
        # killer, an operator), so the statement gets a second try. Dying twice in a row stays ours.
        message = "cancelled"
        for _ in range(2):
            worker = self._idle.get()
            try:
                self._check_open()
                worker.prepare()
                if not call.begin(worker):
                    break
                return worker.ask(call.database, call.sql)
            except WorkerStuck:
                return self._killed()
            except WorkerDied as death:
                if death.alarm:
                    return self._killed()
                message = str(death)
            except OSError as error:
                message = f"no worker process: {error}"
            finally:
                call.end()
                self._replace_if_dead(worker)
                self._idle.put(worker)
        return Outcome(Status.INFRASTRUCTURE, error=message)

    def _replace_if_dead(self, worker: WorkerProcess) -> None:
        if worker.pid is None and not self._closed:
            with contextlib.suppress(OSError):  # the next statement tries again, and reports it
                worker.start()

    def _killed(self) -> Outcome:
        limits = self.limits
        message = f"killed {limits.grace_s:g} s after the limit of {limits.timeout_s:g} s"
        return Outcome(Status.TIMEOUT, error=message, ms=1000 * (limits.timeout_s + limits.grace_s))


def _in_order(waiting: Iterator[int], done: queue.SimpleQueue, count: int) -> Iterator[Outcome]:
    """The outcomes that come in through `done`, by index; what raised in a thread is raised here."""
    early: dict[int, Outcome] = {}
    try:
        for index in range(count):
            while index not in early:
                which, value = done.get()
                if which is None:
                    value.result()  # the thread has nothing left to do, or this raises why it stopped
                else:
                    early[which] = value
            yield early.pop(index)
    finally:
        for _ in waiting:  # where the caller stops early, so do the threads
            pass


class _Call:
    """One statement on its way, which another thread may cancel. The lock makes sure that a cancel never
    hits a worker that has gone on to somebody else's statement."""

    def __init__(self, database: str, sql: str):
        self.database = database
        self.sql = sql
        self._lock = threading.Lock()
        self._cancelled = False
        self._worker: WorkerProcess | None = None

    def begin(self, worker: WorkerProcess) -> bool:
        """Take the worker; False if the call was cancelled before."""
        with self._lock:
            if not self._cancelled:
                self._worker = worker
            return not self._cancelled

    def end(self) -> None:
        """Leave the worker to others."""
        with self._lock:
            self._worker = None

    def cancel(self) -> None:
        """Never begin; end the process of a worker that has begun."""
        with self._lock:
            self._cancelled = True
            if self._worker is not None:
                self._worker.interrupt()
