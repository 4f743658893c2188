"""The caller's side of one worker process: start it, ask it one question at a time, kill it."""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serl.sql import frames
from serl.sql.limits import Limits
from serl.sql.outcome import Outcome, Status

_START_TIMEOUT_S = 60.0  # generous: a machine that trains a model may be slow to start a process
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_FLAGS = {"sqlite": ["-S"]}  # no site-packages, where other engines live: they take longer to set up than the worker
# Every thread of an engine would otherwise set aside 64 MB of address space, which is limited.
_ENVIRONMENT = {"PYTHONPATH": _PACKAGE_ROOT, "MALLOC_ARENA_MAX": "1"}
_PIPE_BYTES = 1 << 16  # what a pipe holds, so most answers come with one read


class WorkerStuck(Exception):
    """The worker did not answer in time."""


class WorkerDied(Exception):
    """The worker ended without an answer. `alarm`: by its own alarm at the hard deadline."""

    def __init__(self, returncode: int):
        super().__init__(f"worker process ended with code {returncode}")
        self.alarm = returncode == -signal.SIGALRM


class WorkerProcess:
    """One `python -m serl.sql.worker`, started again when needed.

    Not thread-safe: one question at a time. Only `interrupt` may be called by another thread meanwhile.
    """

    def __init__(self, limits: Limits, dialect: str = "sqlite"):
        self._limits = limits
        self._dialect = dialect
        self._process: subprocess.Popen | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """The process id, None where no process is running."""
        process = self._process
        return process.pid if process else None

    def start(self) -> None:
        """Start the process, without waiting for it to be up. OSError if the system refuses."""
        # A session of its own: Ctrl-C at the terminal is for the caller, who then closes the pipes.
        self._process = subprocess.Popen(
            [sys.executable, "-P", *_FLAGS.get(self._dialect, []), "-m", "serl.sql.worker", self._dialect],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
            bufsize=0,
            start_new_session=True,
        )
        self._poll = select.poll()
        self._poll.register(self._process.stdout, select.POLLIN)
        self._ready = False

    def prepare(self) -> None:
        """Wait for the process to be up, started where it is not. OSError or WorkerDied if that fails."""
        if self._ready:
            return
        with self._killed_on_failure():
            if self._process is None:
                self.start()
            self._send(dataclasses.asdict(self._limits))
            try:
                self._receive(_START_TIMEOUT_S)
            except WorkerStuck:  # not the doing of the statement that waits for it
                raise TimeoutError(f"the worker was not up after {_START_TIMEOUT_S:g} s") from None
            self._ready = True

    def ask(self, database: str, sql: str) -> Outcome:
        """The statement's outcome, from a prepared process; raises WorkerStuck or WorkerDied."""
        with self._killed_on_failure():
            self._send((database, sql))
            answer = self._receive(self._limits.timeout_s + 2 * self._limits.grace_s)
        (worn_out, status, columns, row_count, error, ms), *chunks = answer
        if worn_out:
            self.kill()
        rows = tuple([row for chunk in chunks for row in chunk])
        return Outcome(Status(status), columns, rows, row_count, error, ms)

    def interrupt(self) -> None:
        """End what the process is doing, and the process; whoever waits for its answer gets WorkerDied."""
        process = self._process
        if process is not None:
            process.kill()

    def kill(self) -> None:
        """End the process, if there is one, and release its pipes."""
        process, self._process, self._ready = self._process, None, False
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    @contextmanager
    def _killed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Also after Ctrl-C: the answer may still come, and must not be taken for the next one's.
            self.kill()
            raise

    def _send(self, message: tuple | dict) -> None:
        try:
            view = memoryview(frames.encode(message))
            while view:
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError:
            raise WorkerDied(self._process.wait()) from None

    def _receive(self, seconds: float) -> list:
        deadline = time.monotonic() + seconds
        data = self._read(deadline, _PIPE_BYTES)
        while len(data) < frames.HEADER_BYTES:
            data += self._read(deadline, _PIPE_BYTES)
        end = frames.HEADER_BYTES + frames.body_length(data[: frames.HEADER_BYTES])
        if len(data) < end:
            parts = [data]
            missing = end - len(data)
            while missing:
                parts.append(self._read(deadline, missing))
                missing -= len(parts[-1])
            data = b"".join(parts)
        return list(frames.decode(data[frames.HEADER_BYTES :]))

    def _read(self, deadline: float, size: int) -> bytes:
        """What has come, at most `size` bytes of it and at least one."""
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0 or not self._poll.poll(left_ms):
            raise WorkerStuck
        chunk = os.read(self._process.stdout.fileno(), min(size, 1 << 20))
        if not chunk:
            raise WorkerDied(self._process.wait())
        return chunk
