"""Runs a server for as long as its standard input stays open: it must not outlive whoever started it, killed or not.

    python -m serl.generate.vllm.guard COMMAND...

In a session of its own, so that all that the server starts can be killed with it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

KILL_S = 10.0
_TRACKER = b"multiprocessing.resource_tracker"


def main() -> int:
    """The server's exit code."""
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    threading.Thread(target=_until_left_alone, args=(server,), daemon=True).start()
    code = server.wait()
    kill_group(os.getpgrp())  # its workers may outlive it
    return code


def kill_group(group: int) -> None:
    """End the processes of a group at once, but for Python's resource trackers (Linux).

    A tracker removes the shared memory that killed processes have left, and ends when the last of them has: killed with
    them, it would leave some hundred megabytes behind.
    """
    end = time.monotonic() + KILL_S
    # Again until there are none, since they may start others meanwhile; a driver may keep one that has to go.
    while (victims := [pid for pid in _members(group) if pid != os.getpid()]) and time.monotonic() < end:
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _members(group: int) -> list[int]:
    """Processes of the group that are alive, without trackers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            command = (folder / "cmdline").read_bytes()  # empty of one that has ended and was not waited for
            if command and _TRACKER not in command and os.getpgid(int(folder.name)) == group:
                found.append(int(folder.name))
    return found


def _until_left_alone(server: subprocess.Popen) -> None:
    while os.read(0, 4096):
        pass
    server.kill()


if __name__ == "__main__":
    sys.exit(main())
