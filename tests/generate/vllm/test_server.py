"""The life of a server's process: ready, gone, too slow, stopped with its children, and never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serl.generate.vllm import server as module
from serl.generate.vllm.endpoint import EndpointDown
from serl.generate.vllm.launch import environment
from serl.generate.vllm.server import ServerProcess, free_port
from tests.generate.vllm.conftest import MODEST

# A server with a child: writes both process ids and sleeps.
FAMILY = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
path = pathlib.Path(sys.argv[1])
path.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
path.with_suffix(".part").rename(path)
time.sleep(600)
"""


# A server with shared memory, as vLLM's have between their processes, that does not stop when it is told to.
STUBBORN = """
import pathlib, signal, sys, time
from multiprocessing import shared_memory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
memory = shared_memory.SharedMemory(create=True, size=1000)
path = pathlib.Path(sys.argv[1])
path.with_suffix(".part").write_text(memory.name)
path.with_suffix(".part").rename(path)
time.sleep(600)
"""


def process(tmp_path, code: str, *arguments: str, startup_s: float = 30.0) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", code, *arguments], environment(MODEST, gpu=False), tmp_path / "log",
                         startup_s)


def lives(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(map(lives, pids)):
        assert time.monotonic() < deadline, f"still there: {list(filter(lives, pids))}"
        time.sleep(0.02)


async def never() -> bool:
    return False


def ready(path: Path):
    async def healthy() -> bool:
        return path.exists()

    return healthy


def test_a_server_is_stopped_with_its_children_and_can_be_started_again(tmp_path):
    server, path = process(tmp_path, FAMILY, str(tmp_path / "pids")), tmp_path / "pids"
    families = []
    for _ in range(2):
        asyncio.run(server.start(ready(path)))
        assert server.running
        families += map(int, path.read_text().split())
        path.unlink()
    server.stop()
    assert not server.running and len(set(families)) == 4
    until_gone(families)
    server.stop()


def test_a_server_that_has_to_be_killed_leaves_no_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.1)
    path = tmp_path / "name"
    server = process(tmp_path, STUBBORN, str(path))
    asyncio.run(server.start(ready(path)))
    memory = Path("/dev/shm") / path.read_text().lstrip("/")
    assert memory.exists()
    server.stop()
    deadline = time.monotonic() + 20
    while memory.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_that_ends_while_it_starts_says_its_last_words(tmp_path):
    server = process(tmp_path, "print('no such model'); raise SystemExit(3)")
    with pytest.raises(EndpointDown, match=r"exit code 3.*log: no such model"):
        asyncio.run(server.start(never))


def test_a_server_that_ends_leaves_no_child_behind(tmp_path):
    server = process(tmp_path, FAMILY.replace("time.sleep(600)\n", ""), str(tmp_path / "pids"))
    with pytest.raises(EndpointDown, match="exit code 0"):
        asyncio.run(server.start(never))
    until_gone(list(map(int, (tmp_path / "pids").read_text().split())))


def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    server = process(tmp_path, FAMILY, str(tmp_path / "pids"), startup_s=1.0)
    with pytest.raises(EndpointDown, match=r"not ready after 1 s \(rollout\.vllm\.startup_timeout_s\)"):
        asyncio.run(server.start(never))
    assert not server.running


def test_a_server_does_not_outlive_a_trainer_that_is_killed(tmp_path):
    path = tmp_path / "pids"
    trainer = subprocess.Popen([sys.executable, "-c", f"""
import asyncio, pathlib, sys, time
from serl.generate.vllm.server import ServerProcess
log, path = pathlib.Path({str(tmp_path / "log")!r}), pathlib.Path({str(path)!r})
async def healthy(): return path.exists()
server = ServerProcess([sys.executable, "-c", {FAMILY!r}, str(path)], {{}}, log, 30.0)
asyncio.run(server.start(healthy))
time.sleep(600)
"""], env=os.environ | environment(MODEST, gpu=False))
    while not path.exists():
        assert trainer.poll() is None
        time.sleep(0.02)
    family = list(map(int, path.read_text().split()))
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    until_gone(family)


def test_free_ports_differ_from_those_in_use():
    import socket

    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert free_port() != port
