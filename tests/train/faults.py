"""Runs of `serl train` in which something goes wrong at a given point of a given step: the driver of test_faults.py.

    python -m tests.train.faults

reads JSON lines, a run each: {"fault": NAME or null, "step": N, "arguments": [...]}. Each runs in a process of its own,
which is forked from this one so that libraries are imported once. It answers with a JSON line: `code` (as subprocess
tells it: below 0 the signal that killed it) and `stderr`.

Nothing of this is in the product: a fault is put around its functions from outside.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from serl import cli
from serl.generate.hf import HFGenerator
from serl.sql.sandbox import Sandbox
from serl.tracking import RunFolder
from serl.train import checkpoint, loop, run, samples  # noqa: F401  (imported before the first fork)
from serl.train.engine import TorchEngine
from serl.train.trainer import Trainer
from serl.workbench import Workbench

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

now = {"step": -1, "part": ""}  # where the run is


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def twice() -> None:
    """A signal, and another one after more than what counts as one."""
    term()
    time.sleep(1.5)
    term()


def full(size: int) -> None:
    """From now on no file may grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def around(owner: object, name: str, before: Callable[..., None] = lambda *_: None,
           after: Callable[..., None] = lambda *_: None) -> None:
    """Call `before` and `after` with the arguments of a function, around it."""
    real = getattr(owner, name)

    def wrapper(*args, **options):
        before(*args)
        result = real(*args, **options)
        after(*args)
        return result

    setattr(owner, name, wrapper)


def sampling(part: str, step: int, act: Callable[[], None]) -> None:
    """At the fourth token of a part (step, probe) of a step."""
    polls: list[int] = []

    def count(*_) -> None:
        if (now["part"], now["step"]) == (part, step):
            polls.append(1)
            if len(polls) == 4:
                act()

    around(HFGenerator, "poll", after=count)


def when(owner: object, name: str, step: int, act: Callable[[], None], late: bool = False) -> None:
    """Before (`late`: after) the first call of a function in a step."""
    done: list[int] = []

    def once(*_) -> None:
        if now["step"] == step and not done:
            done.append(1)
            act()

    around(owner, name, **{"after" if late else "before": once})


def half_written(step: int, act: Callable[[], None]) -> None:
    """When half of a checkpoint's state is on the disk."""
    def half(path: Path, _) -> None:
        if now["step"] == step:
            os.truncate(path, path.stat().st_size // 2)
            act()

    around(checkpoint, "_write_state", after=half)


def endless_query(step: int, act: Callable[[], None]) -> None:
    """While the rollout waits for a query that does not end."""
    real, done = Sandbox.submit, []

    def submit(self, database, sql):
        if now["step"] != step or done:
            return real(self, database, sql)
        done.append(1)
        threading.Timer(1.0, act).start()
        return real(self, database, ENDLESS)

    Sandbox.submit = submit


FAULTS: dict[str, Callable[[int], None]] = {
    "kill in rollout": lambda step: sampling("step", step, kill),
    "kill in scoring": lambda step: when(samples, "score", step, kill),
    "kill in update": lambda step: when(TorchEngine, "step", step, kill, late=True),
    "kill in sync": lambda step: when(Workbench, "weights_changed", step, kill),
    "kill in checkpoint": lambda step: half_written(step, kill),
    "kill in eval": lambda step: sampling("probe", step, kill),
    "term in query": lambda step: endless_query(step, term),
    "term in update": lambda step: when(TorchEngine, "step", step, term, late=True),
    "term in checkpoint": lambda step: when(checkpoint, "_write_state", step, term),
    "term in eval": lambda step: sampling("probe", step, term),
    "int in rollout": lambda step: sampling("step", step, interrupt),
    "twice in update": lambda step: when(TorchEngine, "step", step, twice),
    "full in trajectories": lambda step: when(RunFolder, "write_trajectories", step, lambda: full(5_000)),
    "full in metrics": lambda step: around(RunFolder, "append_metrics", before=lambda folder, number, _: (
        number == step and full((folder.path / "metrics.jsonl").stat().st_size + 40))),
    "full in weights": lambda step: when(checkpoint, "save_model", step, lambda: full(1 << 20)),
    "full in state": lambda step: when(checkpoint, "_write_state", step, lambda: full(1 << 20)),
}


def child(fault: str | None, step: int, arguments: list[str]) -> int:
    around(Trainer, "step", before=lambda _, number: now.update(step=number, part="step"))
    around(loop, "probe", before=lambda _: now.update(part="probe"))
    if fault is not None:
        FAULTS[fault](step)
    return cli.main(arguments)


def forked(case: dict) -> dict:
    """What became of a run in a process of its own."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.close(read), os.close(write)
        code = 70
        try:
            code = child(case["fault"], case["step"], case["arguments"])
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as pipe:
        told = pipe.read()
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "stderr": told}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)
