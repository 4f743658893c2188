"""What a benchmark asks of its own process."""

from pathlib import Path


def memory_mib(field: str) -> float:
    """MiB of this process that are in memory (VmRSS), or were at most (VmHWM); Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
