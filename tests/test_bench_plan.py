"""The benchmark of the plan: its cases are planned on the parts that it measures."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PLAN = Path(__file__).parents[1] / "experiments" / "bench" / "plan.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_plan", PLAN)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_a_case_has_two_micro_batches_of_one_group_each(bench):
    from serl.plan.micro import micro_batch
    from serl.plan.parameters import config_of_fields

    case = replace(bench.CASES["4M"], prompt=90, response=6, group=3)
    for shared, tokens in ((True, 89 + 3 * 7), (False, 3 * 96)):
        found = micro_batch(config_of_fields(case.fields), bench.setting_for(replace(case, shared=shared)))
        assert (found.count, found.trajectories, found.tokens) == (2, 3, tokens)


def test_the_table_has_the_ratio(bench):
    text = bench.table([{"case": "4M", "planned": 110.0, "measured": 100.0, "kept": 123.0}])
    assert "4M" in text and "1.100" in text and "123" in text


@pytest.mark.slow
def test_the_plan_is_within_its_goal(bench):
    subprocess.run([sys.executable, str(PLAN), "--cases", "4M-plain"], check=True)
