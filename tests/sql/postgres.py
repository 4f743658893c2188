"""A PostgreSQL server of the tests' own, in a temporary folder."""

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_USERS = ("postgres", "nobody")  # PostgreSQL refuses to run as root; one of these does it then
_FAST = "-c fsync=off -c shared_buffers=16MB -c max_connections=40 -c autovacuum=off -c listen_addresses=127.0.0.1"


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A running server's connection string for the superuser `postgres`; skips where none is installed."""
    bins = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[-2]))
    if not bins:
        pytest.skip("no PostgreSQL server in /usr/lib/postgresql (Debian's package: postgresql)")
    with tempfile.TemporaryDirectory(prefix="serl-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        account = _account()
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)

        def call(program: str, *args: str) -> None:
            who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
            command = [f"{bins[-1]}/{program}", *args]
            subprocess.run(command, check=True, capture_output=True, cwd=folder, env={"LC_ALL": "C.UTF-8"}, **who)

        data, port = str(folder / "data"), _free_port()
        call("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"{_FAST} -c port={port} -c unix_socket_directories={folder}"
        call("pg_ctl", "-D", data, "-w", "-t", "60", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"host=127.0.0.1 port={port} dbname=postgres user=postgres"
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
            shutil.rmtree(folder, ignore_errors=True)


def _account() -> pwd.struct_passwd | None:
    """Whom to run the server as, None for ourselves."""
    if os.geteuid() != 0:
        return None
    for user in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(user)
    pytest.skip(f"PostgreSQL does not run as root, and there is no user {' or '.join(_USERS)}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
