"""The runs of a sweep in processes of their own: what is done is skipped, what was stopped goes on.

    SWEEP/ARM-sSEED/         a run folder, as `serl train` makes it
    SWEEP/ARM-sSEED.log      what the run printed
    SWEEP/ARM-sSEED.failed   its last words, if it failed: it is tried again only with `retry`
    SWEEP/ARM-sSEED.lock     locked while a process works on it

The run inherits the lock: also one whose sweep was killed keeps others away until it ends. So several `serl sweep` may
work on one folder.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from serl.commands.options import check_same
from serl.config import Config
from serl.io import atomic_write_text
from serl.tracking import read_metrics

DONE, FAILED, BUSY = "done", "failed", "busy"
LEFT = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)  # exit codes of a run that ended, or was told to and goes on


class Runner:
    """Runs (config, arguments of `serl train`) in `folder`, each with `threads` threads; `stop` ends them."""

    def __init__(self, folder: Path, threads: int, retry: bool) -> None:
        self.folder, self.threads, self.retry = folder, threads, retry
        self._stopped = threading.Event()
        self._running: set[subprocess.Popen] = set()

    def run_all(self, jobs: Sequence[tuple[Config, Sequence[str]]], workers: int,
                passed: Callable[[str, str], object]) -> dict[str, str]:
        """The state of each run, by name; `passed(name, state)` is called as each one ends."""
        self.folder.mkdir(parents=True, exist_ok=True)

        def work(job: tuple[Config, Sequence[str]]) -> tuple[str, str]:
            state = self._run(*job)
            passed(job[0].name, state)
            return job[0].name, state

        pool = ThreadPoolExecutor(workers)
        try:
            return dict(pool.map(work, jobs))
        finally:
            self._stopped.set()
            for process in list(self._running):
                process.terminate()
            pool.shutdown(cancel_futures=True)

    def _run(self, config: Config, arguments: Sequence[str]) -> str:
        if self._stopped.is_set():
            return BUSY
        if is_done(self.folder, config):
            return DONE
        failed = self.folder / f"{config.name}.failed"
        if failed.exists() and not self.retry:
            return FAILED
        with open(self.folder / f"{config.name}.lock", "wb") as lock, open(self.folder / f"{config.name}.log",
                                                                           "ab") as log:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return BUSY
            failed.unlink(missing_ok=True)
            start = log.tell()
            process = subprocess.Popen([sys.executable, "-m", "serl.cli", "train", "--auto-resume", *arguments],
                                       stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       pass_fds=[lock.fileno()],
                                       env={**os.environ, "OMP_NUM_THREADS": str(self.threads)})
            self._running.add(process)
            code = process.wait()
            self._running.discard(process)
        if code in LEFT or self._stopped.is_set():
            return DONE if code == 0 else BUSY
        atomic_write_text(failed, f"exit code {code}: {_last_words(Path(log.name), start)}\n")
        return FAILED


def is_done(folder: Path, config: Config) -> bool:
    """Whether this very run has ended. InputError if the folder holds a run of that name with other settings."""
    run = folder / config.name
    if not (run / "config.yaml").is_file():
        return False
    check_same(run, config, "name the sweep anew, or remove it")
    return (run / "eval" / "rl" / "summary.json").is_file() and len(read_metrics(run)) >= config.train.steps


def why_failed(folder: Path, name: str) -> str:
    """The last words of a run that failed."""
    return (folder / f"{name}.failed").read_text(encoding="utf-8").strip()


def _last_words(log: Path, start: int) -> str:
    """The last line that is no progress bar."""
    with open(log, "rb") as file:
        file.seek(start)
        text = file.read().decode("utf-8", errors="replace")
    lines = [line.split("\r")[-1].strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
