"""What a run leaves behind: its folder (`RunFolder`), and, if wanted, Weights & Biases (`Tracker`).

The folder is the record: everything the viewer and the notebooks show comes from its files.

    RUN/config.yaml                          the resolved config
    RUN/environment.json                     versions, hardware, git state, command line
    RUN/metrics.jsonl                        one line a step
    RUN/trajectories/step_000012.jsonl       the trajectories of step 12
    RUN/hindsight/step_000012.jsonl          what the teacher read in step 12 (`hindsight.dump`)
    RUN/guards/step_000012.jsonl             the batch of step 12, if it was not learned from (`train.guards`), and why
"""

from __future__ import annotations

import fcntl
import json
import netrc
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import yaml

from serl.config import Config, to_dict
from serl.environment import describe_environment
from serl.errors import InputError
from serl.io import atomic_write_text, names_file, write_all, write_jsonl

WANDB_MODES = ("auto", "online", "offline", "disabled")
WANDB_INIT_TIMEOUT_S = 30.0


class RunFolder:
    """The folder of one run. Making it creates RUN and RUN/trajectories; nothing there is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            (path / "trajectories").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"run folder {path}: cannot be made ({error.strerror})") from error
        self._metrics = path / "metrics.jsonl"

    def claim(self) -> None:
        """Keep other processes out for as long as this one lives; InputError if one is at work here already."""
        try:
            lock = os.open(self.path / ".lock", os.O_WRONLY | os.O_CREAT, 0o644)  # until the process ends
        except OSError as error:
            raise InputError(f"run folder {self.path}: cannot be written ({error.strerror})") from error
        try:
            # Not flock: forked workers would hold it on after the process that was killed.
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(f"run folder {self.path}: another process is at work in it; wait for its end, or stop it"
                             ) from None
        except OSError:  # a file system without locks
            os.close(lock)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write RUN/config.yaml. `config` holds plain values only (dict, list, str, number, bool, None)."""
        text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
        atomic_write_text(self.path / "config.yaml", text)

    def write_environment(self, argv: Sequence[str] | None = None) -> None:
        """Write RUN/environment.json; `argv` is this process's command line by default."""
        environment = describe_environment(sys.argv if argv is None else argv)
        atomic_write_text(self.path / "environment.json", json.dumps(environment, indent=2) + "\n")

    def append_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add one line for `step`; when this returns the line is on disk, whatever happens to the process.

        Where the disk is full nothing of it stays, and the OSError names the file.
        """
        line = json.dumps({"step": step, **metrics}, ensure_ascii=False) + "\n"
        with open(self._metrics, "ab", buffering=0) as file, names_file(self._metrics):
            before = os.fstat(file.fileno()).st_size
            try:
                write_all(file, line.encode("utf-8"))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise

    def truncate_metrics(self, step: int) -> None:
        """For a run that resumes at `step`: drop later lines, and a last line that a kill cut off."""
        if self._metrics.exists():
            write_jsonl(self._metrics, [row for row in read_metrics(self.path) if row["step"] < step])

    def rewind(self, written: int, taken: int) -> None:
        """For a run that resumes: drop what it wrote of steps that it takes again, and what a kill left half-written.

        Of the first `taken` steps the files stay, of the first `written` the metrics, which may be waiting for a probe.
        """
        self.truncate_metrics(written)
        for file_of in (trajectory_file, hindsight_file, guard_file):
            first = file_of(self.path, taken)
            for path in first.parent.glob("step_*.jsonl"):
                if path.name >= first.name:
                    path.unlink()
        for pattern in (".*.part", "*/.*.part", "eval/*/.*.part"):
            for path in self.path.glob(pattern):
                path.unlink()

    def write_trajectories(self, step: int, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write the trajectories of `step`, replacing earlier ones of that step, and return the file."""
        path = trajectory_file(self.path, step)
        write_jsonl(path, rows)
        return path

    def write_hindsight(self, step: int, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write the teacher inputs of `step`, replacing earlier ones of that step, and return the file."""
        path = hindsight_file(self.path, step)
        write_jsonl(path, rows)
        return path

    def write_guarded(self, step: int, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write the trajectories of a batch that was not learned from, replacing earlier ones of that step."""
        path = guard_file(self.path, step)
        write_jsonl(path, rows)
        return path


class Tracker:
    """A run's metrics on Weights & Biases, beside the run folder and never instead of it.

    `mode`: `online`; `offline` (files under `dir`/wandb, for `wandb sync` later; no network at all);
    `disabled` (wandb is not even imported); `auto`: see `resolve_wandb_mode`, and offline with a warning when
    the server cannot be reached. Asks nothing and prints nothing else.
    """

    def __init__(
        self,
        mode: str = "auto",
        project: str = "serl",
        name: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
        dir: Path | None = None,
    ) -> None:
        self.mode = resolve_wandb_mode(mode)
        self._run = None
        if self.mode == "disabled":
            return
        if find_spec("wandb") is None:
            raise InputError(
                f"wandb mode {self.mode}: wandb is not installed; install it or use mode disabled"
            )
        # The login speaks before any settings apply, and crash reports would use the network even offline.
        os.environ.setdefault("WANDB_SILENT", "true")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        if dir is not None:
            dir.mkdir(parents=True, exist_ok=True)
        start = partial(
            wandb.init,
            project=project,
            name=name,
            group=group,
            tags=list(tags),
            config=dict(config or {}),
            dir=dir,
            id=_run_id(dir),  # a resumed run goes on with the same curves
            resume="allow",
            settings=wandb.Settings(silent=True, console="off", init_timeout=WANDB_INIT_TIMEOUT_S),
        )
        try:
            self._run = start(mode=self.mode)
        except wandb.Error as error:
            reason = str(error).partition("\n")[0]
            if mode != "auto":
                raise InputError(
                    f"wandb: {reason}; check the login and network, or use mode offline"
                ) from error
            print(f"wandb: {reason}; logging offline, see `wandb sync`", file=sys.stderr)
            self.mode = "offline"
            # The first try holds its id until this process ends.
            self._run = start(mode="offline", id=uuid.uuid4().hex[:12], resume="never")

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Send the metrics of `step`; steps must not go back."""
        if self._run is not None:
            self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Flush and close. Calling it again does nothing."""
        if self._run is not None:
            self._run.finish()
            self._run = None


@contextmanager
def tracking(config: Config, folder: Path) -> Iterator[Tracker]:
    """The tracker that a config asks for, with its files in the run folder; closed at the end."""
    options = config.tracking
    tracker = Tracker(
        options.wandb, options.project, config.name, options.group, options.tags, to_dict(config), folder
    )
    try:
        yield tracker
    finally:
        tracker.finish()


def _run_id(dir: Path | None) -> str | None:
    """The id that this folder's run had before, or a new one that is kept there; None without a folder."""
    if dir is None:
        return None
    path = dir / "wandb_id"
    if not path.exists():
        atomic_write_text(path, uuid.uuid4().hex[:12])
    return path.read_text()


def resolve_wandb_mode(mode: str) -> str:
    """`auto` → the user's WANDB_MODE if set, else `online` with a login, `offline` without one.

    A login is WANDB_API_KEY or an entry of the server in ~/.netrc. `auto` without the package is `disabled`.
    """
    if mode not in WANDB_MODES:
        raise InputError(f"wandb mode {mode!r}: must be one of {', '.join(WANDB_MODES)}")
    if mode != "auto":
        return mode
    if find_spec("wandb") is None:
        return "disabled"
    chosen = os.environ.get("WANDB_MODE", "")
    if chosen in ("online", "offline", "disabled"):
        return chosen
    return "online" if os.environ.get("WANDB_API_KEY") or _has_netrc_login() else "offline"


def _has_netrc_login() -> bool:
    """Whether the user's netrc knows the wandb server. An unreadable netrc counts as no login."""
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname
    try:
        return bool(host) and netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def trajectory_file(run_dir: Path, step: int) -> Path:
    """Where the trajectories of `step` are kept."""
    return run_dir / "trajectories" / f"step_{step:06d}.jsonl"


def hindsight_file(run_dir: Path, step: int) -> Path:
    """Where the teacher inputs of `step` are kept, if they are."""
    return run_dir / "hindsight" / f"step_{step:06d}.jsonl"


def guard_file(run_dir: Path, step: int) -> Path:
    """Where the batch of `step` is kept, if a guard kept it from being learned from."""
    return run_dir / "guards" / f"step_{step:06d}.jsonl"


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """The metrics of a run, [] before its first step.

    A last line without its newline is what a kill (or a writer still at work) leaves: it is ignored. Any
    other damage is an InputError.
    """
    path = run_dir / "metrics.jsonl"
    if not path.exists():
        return []
    data = path.read_bytes()
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")
    return [_parsed(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def _parsed(line: bytes, where: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON ({error})") from error
