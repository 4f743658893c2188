"""The GPU check runs on a CPU at a tiny size, needs nothing but PyTorch and transformers, and its figures agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# What serl needs elsewhere, and a machine with PyTorch and transformers alone does not have.
ABSENT = ("sqlglot", "wandb", "matplotlib", "sentence_transformers", "faiss", "peft")
CODE = """
import runpy, sys
sys.modules.update(dict.fromkeys({absent!r}))  # an import of these fails
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("check") / "result.json"
    argv = [str(ROOT / "experiments" / "bench" / "gpu_check.py"), "--tiny", "--json", str(out)]
    done = subprocess.run([sys.executable, "-c", CODE.format(absent=ABSENT, argv=argv)], capture_output=True,
                          text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()) | {"text": done.stdout}


def test_all_parts_are_reported(result):
    assert {"step", "logprobs", "gaps", "plan"} <= set(result)
    assert all(f"{name}: " in result["text"] for name in ("step", "logprobs", "gaps", "plan"))
    assert not any("failed" in str(result[name]) for name in ("step", "logprobs", "gaps", "plan"))


def test_ways_of_an_update_agree(result):
    norms = {row["way"]: row["gradient norm"] for row in result["step"]}
    assert set(norms) == {"shared", "live", "plain", "one"}
    assert all(norm == pytest.approx(norms["one"], rel=1e-3) for norm in norms.values())


def test_the_plan_is_of_each_way(result):
    planned = {row["way"]: row["planned"] for row in result["plan"]}
    assert planned["plain"] > planned["shared"] > planned["computed again"] > 0


def test_the_gap_is_larger_than_its_error(result):
    gaps = result["gaps"]
    assert 0 < gaps["mean |error|"] < gaps["mean |gap|"] and gaps["mean |error|"] <= gaps["worst error"]
    assert gaps["noise of shared, float32"] < 1e-3 < gaps["noise of shared, bfloat16"]
    assert 0 <= gaps["another side of the clip"] < 0.5
