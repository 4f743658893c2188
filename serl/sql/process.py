"""The caller's side of one worker process: start it, ask it one question at a time, kill it."""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from serl.sql import frames
from serl.sql.limits import Limits

_START_TIMEOUT_S = 60.0  # generous: a machine that trains a model may be slow to start a process
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])


class WorkerStuck(Exception):
    """The worker did not answer in time."""


class WorkerDied(Exception):
    """The worker ended without an answer. `alarm`: by its own alarm at the hard deadline."""

    def __init__(self, returncode: int):
        super().__init__(f"worker process ended with code {returncode}")
        self.alarm = returncode == -signal.SIGALRM


class WorkerProcess:
    """One `python -m serl.sql.worker`, started again when needed. Not thread-safe: one question at a time."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._process: subprocess.Popen | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """The process id, None where no process is running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process, without waiting for it to be up. OSError if the system refuses."""
        # A session of its own: Ctrl-C at the terminal is for the caller, who then closes the pipes.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "serl.sql.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _PACKAGE_ROOT},
            bufsize=0,
            start_new_session=True,
        )
        self._poll = select.poll()
        self._poll.register(self._process.stdout, select.POLLIN)
        self._ready = False

    def ask(self, db_path: str, sql: str) -> tuple:
        """The fields of the statement's outcome; raises WorkerStuck, WorkerDied, or OSError (no process)."""
        try:
            if self._process is None:
                self.start()
            if not self._ready:
                self._get_ready()
            self._send((db_path, sql))
            return self._receive(self._limits.timeout_s + 2 * self._limits.grace_s)
        except BaseException:
            # Also after Ctrl-C: the answer may still come, and must not be taken for the next one's.
            self.kill()
            raise

    def kill(self) -> None:
        """End the process, if there is one, and release its pipes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def _get_ready(self) -> None:
        self._send(dataclasses.asdict(self._limits))
        try:
            self._receive(_START_TIMEOUT_S)
        except WorkerStuck:  # not the doing of the statement that waits for it
            raise TimeoutError(f"the worker was not up after {_START_TIMEOUT_S:g} s") from None
        self._ready = True

    def _send(self, message: tuple) -> None:
        try:
            view = memoryview(frames.encode(message))
            while view:
                view = view[self._process.stdin.write(view) :]
        except BrokenPipeError:
            raise WorkerDied(self._process.wait()) from None

    def _receive(self, seconds: float):
        deadline = time.monotonic() + seconds
        header = self._read(frames.HEADER_BYTES, deadline)
        return frames.decode(self._read(frames.body_length(header), deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0 or not self._poll.poll(left_ms):
                raise WorkerStuck
            chunk = self._process.stdout.read(min(size - len(data), 1 << 20))
            if not chunk:
                raise WorkerDied(self._process.wait())
            data += chunk
        return bytes(data)
