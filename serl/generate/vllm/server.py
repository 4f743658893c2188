"""The process of a vLLM server that we start, and stop with all that it started (see `serl.generate.vllm.guard`)."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from serl.generate.vllm import guard
from serl.generate.vllm.endpoint import EndpointDown
from serl.parallel import alone

LOG_SUFFIX = ".log"
POLL_S = 0.5
GRACE_S = 15.0  # between SIGTERM and SIGKILL


class ServerProcess:
    """`command` with the environment `added`, in a session of its own; its output goes to `log`."""

    def __init__(self, command: Sequence[str], added: dict[str, str], log: Path, startup_s: float) -> None:
        self.command, self.added, self.log, self.startup_s = list(command), added, log, startup_s
        self._process: subprocess.Popen | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self.running else None

    async def start(self, healthy: Callable[[], Awaitable[bool]]) -> None:
        """Start the server, what was left of it first stopped, and wait until it is `healthy`; EndpointDown."""
        self.stop()
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen([sys.executable, "-m", guard.__name__, *self.command],
                                             env=alone(os.environ) | self.added, stdin=subprocess.PIPE, stdout=log,
                                             stderr=log, start_new_session=True)
        end = time.monotonic() + self.startup_s
        while not await healthy():
            if not self.running:
                raise EndpointDown(f"ended while it started (exit code {self._process.returncode}); its last words in "
                                   f"{self.log}: {self._last_line()}")
            if time.monotonic() > end:
                self.stop()
                raise EndpointDown(f"not ready after {self.startup_s:g} s (rollout.vllm.startup_timeout_s), see "
                                   f"{self.log}")
            await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """End the server and its workers; of no effect if it does not run."""
        if self._process is None:
            return
        if self.running:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        # Its workers are of its process group, and may outlive a server that was killed.
        guard.kill_group(self._process.pid)
        self._process.wait()
        self._process.stdin.close()

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else "(none)"


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
