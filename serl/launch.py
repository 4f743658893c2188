"""Start a command once a rank: on this machine by torch's launcher, on several by DeepSpeed's.

    serl train --config FILE --processes 8             8 ranks here
    serl train --config FILE --hostfile FILE           on every host of DeepSpeed's hostfile as many as its slots

The ranks run the same command without these options, and find each other by their environment (`serl.parallel`). A
rank that fails ends the others; what it said is said once, and its exit code is the launcher's.
"""

import argparse
import importlib.util
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from serl.errors import InputError
from serl.parallel import LAUNCHED_BY

LAUNCHERS = ("pdsh", "openmpi", "slurm", "mpich", "impi")
PORT = 29500
SHUTDOWN_S = 120  # that ranks have to save and leave after SIGTERM, and to notice that another one has failed
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # where torch's launcher looks for what a rank has to say


def options() -> argparse.ArgumentParser:
    """The options of a command that may run as several ranks; a parent of its parser."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("several processes")
    group.add_argument("--processes", type=int, metavar="N", help="ranks to start on this machine, one a GPU")
    group.add_argument("--hostfile", type=Path, metavar="FILE",
                       help="start ranks on the hosts of a DeepSpeed hostfile (lines `HOST slots=N`), by its launcher")
    group.add_argument("--launcher", choices=LAUNCHERS, help="how DeepSpeed reaches the hosts (default: pdsh)")
    return parser


def asked(args: argparse.Namespace) -> bool:
    """Whether a command line asks for ranks that are still to be started."""
    return args.processes is not None or args.hostfile is not None or args.launcher is not None


def launch(args: argparse.Namespace) -> int:
    """Run `args.argv` as ranks to its end; the exit code."""
    _, command = options().parse_known_args(args.argv)
    if args.hostfile is not None:
        if args.processes is not None:
            raise InputError("--processes: the slots of --hostfile say how many ranks each host has; leave it out")
        return _start_on_hosts(args.hostfile, args.launcher or "pdsh", command)
    if args.launcher is not None:
        raise InputError("--launcher starts ranks on the hosts of a --hostfile; name one, or leave it out")
    if args.processes < 1:
        raise InputError(f"--processes is {args.processes}; it must be at least 1")
    return _start_here(args.processes, command)


def leave_word(text: str) -> bool:
    """Give a rank's last words to torch's launcher, which says them once; False if there is none that would."""
    path = os.environ.get(ERROR_FILE)
    if path is None:
        return False
    said = {"message": {"message": text, "extraInfo": {"timestamp": int(time.time())}}}
    with suppress(OSError):  # a full disk may be what there is to say
        Path(path).write_text(json.dumps(said), encoding="utf-8")
        return True
    return False


def _start_here(count: int, command: Sequence[str]) -> int:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable(logging.ERROR)  # it would tell at length what is told below in a line
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    with tempfile.TemporaryDirectory(prefix="serl_ranks_") as folder:
        config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=count, run_id=f"serl-{os.getpid()}",
                              rdzv_backend="c10d", rdzv_endpoint="localhost:0", local_addr="localhost",
                              max_restarts=0, shutdown_timeout=_patience(), logs_specs=DefaultLogsSpecs(log_dir=folder))
        try:
            elastic_launch(config, sys.executable)("-u", "-m", "serl.cli", *command)
        except ChildFailedError as error:
            return _tell(error.failures)
        except SignalException as stop:
            _tell_word(Path(folder))
            return 128 + stop.sigval
    return 0


def _tell_word(folder: Path) -> None:
    """Say what ranks said that were told to leave: that of the first one that had time to."""
    for file in sorted(folder.rglob("error.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # one that was ended in the middle of it
            print(json.loads(file.read_text(encoding="utf-8"))["message"]["message"], file=sys.stderr)
            return


def _patience() -> int:
    return int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN_S))


def _tell(failures: dict) -> int:
    """Say why a run failed, and with which exit code. `failures` are torch's, by rank."""
    # A rank that fails makes others fail: the launcher ends them by SIGTERM, and who waits for it says that it is gone.
    own = {rank: failure for rank, failure in failures.items() if failure.exitcode != -signal.SIGTERM} or failures
    killed = {rank: failure for rank, failure in own.items() if failure.exitcode < 0}
    rank, failure = min((killed or own).items(), key=lambda item: item[1].timestamp)
    if failure.exitcode < 0:
        print(f"serl: rank {rank} was ended by {signal.Signals(-failure.exitcode).name}, and the others with it; "
              "a run goes on with --resume", file=sys.stderr)
        return 1
    if isinstance(failure.message, dict):  # else it has printed its traceback
        print(failure.message["message"], file=sys.stderr)
    return failure.exitcode


def _start_on_hosts(hostfile: Path, launcher: str, command: Sequence[str]) -> int:
    """Become DeepSpeed's launcher."""
    arguments = deepspeed_command(hostfile, launcher, command)
    if importlib.util.find_spec("deepspeed") is None:
        raise InputError("--hostfile: DeepSpeed's launcher starts the ranks, and it is not installed; pip install "
                         "'serl[deepspeed]' on every host")
    os.environ["DS_ENV_FILE"] = _environment(hostfile, launcher)
    sys.stdout.flush()
    os.execv(arguments[0], arguments)


def deepspeed_command(hostfile: Path, launcher: str, command: Sequence[str]) -> list[str]:
    """The command that starts `serl` with the arguments `command` on every host."""
    return [sys.executable, "-m", "deepspeed.launcher.runner", "--hostfile", str(hostfile), "--launcher", launcher,
            "--master_addr", first_host(hostfile), "--master_port", str(PORT), "--no_local_rank", "--module",
            "serl.cli", *command]


def first_host(hostfile: Path) -> str:
    """Where rank 0 runs. InputError for a file without hosts, and for lines that DeepSpeed would not take."""
    try:
        lines = hostfile.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{hostfile}: cannot be read as a hostfile ({error})") from error
    hosts = [words for line in lines if (words := line.partition("#")[0].split())]
    for words in hosts:
        if len(words) != 2 or not re.fullmatch(r"slots=[0-9]*[1-9][0-9]*", words[1]):
            raise InputError(f"{hostfile}: {' '.join(words)!r} is no line of a hostfile; write HOST slots=N")
        if [host for host, _ in hosts].count(words[0]) > 1:
            raise InputError(f"{hostfile}: names {words[0]} more than once; write all its slots into one line")
    if not hosts:
        raise InputError(f"{hostfile}: names no host; write lines HOST slots=N")
    return hosts[0][0]


def _environment(hostfile: Path, launcher: str) -> str:
    """A file of what DeepSpeed gives to every rank: Open MPI and Slurm do not tell them where rank 0 is."""
    told = {LAUNCHED_BY: launcher, "MASTER_ADDR": first_host(hostfile), "MASTER_PORT": PORT}
    with tempfile.NamedTemporaryFile("w", prefix="serl_ranks_", suffix=".env", delete=False) as file:
        file.write("".join(f"{name}={value}\n" for name, value in told.items()))
    return file.name
