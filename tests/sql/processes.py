"""What /proc says of processes: whether they live, whose children they are, how much memory they hold."""

import os
from pathlib import Path

_MB = 2**20


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not collected does not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def worker_children() -> list[int]:
    """Process ids of this process's children that are sandbox workers, running or not collected."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _stat(pid)[1:2] == [str(os.getpid())] and b"serl.sql.worker" in _command(pid)]


def resident_mb(pid: int | str = "self") -> float:
    """Memory of a process that is not shared with others or files, in MiB."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / _MB


def _stat(pid: int) -> list[str]:
    """State, parent and the rest; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
