"""The benchmark of the server: its slow database is slow, and at a tiny size it finds nothing wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.bench.serve import make_slow, table
from grounding import Database, Grounder, Request
from serl.sql.limits import Limits
from serl.sql.outcome import Status
from serl.sql.sandbox import Sandbox


def test_the_slow_database_has_no_end_and_can_be_indexed(minibird, tmp_path):
    source, slow = minibird / "dev_databases" / "gym" / "gym.sqlite", tmp_path / "slow.sqlite"
    make_slow(source, slow)
    names = {table.name for table in Database.read(source).tables}
    grounded = Grounder(tmp_path / "cache", "none").ground(Request("How many members?", slow))
    assert names <= {table.name for table in grounded.database.tables}
    with Sandbox(1, Limits(timeout_s=0.5, grace_s=0.3)) as sandbox:
        assert sandbox.run(slow, "SELECT count(*) FROM member").status is Status.TIMEOUT
        assert sandbox.run(slow, "SELECT count(*) FROM member_rows").ran


def test_a_round_is_a_line():
    row = {"seconds": 5.0, "wrong": 0, "differ": 1, "status": {"200": 3, "gone": 1}, "median": 1.5, "p95": 2.0,
           "mib": 800.0, "workers_mib": 90.0, "left": 0}
    _, line = table([row]).splitlines()
    assert line.split() == "0 5.0 0 1 1.50 2.00 800 (90) 0 200: 3, gone: 1".split()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_benchmark_runs(minibird, tmp_path):
    pytest.importorskip("fastapi")
    script = Path(__file__).parents[1] / "experiments" / "bench" / "serve.py"
    options = ["--clients", "4", "--rounds", "1", "--questions", "4", "--timeout", "300", "--json"]
    done = subprocess.run([sys.executable, str(script), "--data", str(minibird), "--cache", str(tmp_path), *options],
                          capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rounds"]
    assert (row["wrong"], row["left"]) == (0, 0) and set(row["status"]) <= {"200", "400", "gone"}
