"""What a benchmark asks of its own process."""

import time
from collections.abc import Collection
from pathlib import Path


def memory_mib(field: str) -> float:
    """MiB of this process that are in memory (VmRSS), or were at most (VmHWM); Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def cpu_seconds(without: Collection[int] = ()) -> float:
    """CPU time of this process and of all that it started and that still run, but for those of these ids."""
    import psutil

    children = [child for child in psutil.Process().children(recursive=True) if child.pid not in without]
    return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in children)
