"""Runs a server for as long as its standard input stays open: it must not outlive whoever started it, killed or not.

    python -m serl.generate.vllm.guard COMMAND...

In a session of its own, so that all that the server starts can be killed with it.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """The server's exit code."""
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    threading.Thread(target=_until_left_alone, daemon=True).start()
    return server.wait()


def _until_left_alone() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
