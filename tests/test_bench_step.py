"""The benchmark of a training step runs, its ways agree, and its ratios are those of its seconds."""

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path

import pytest

STEP = Path(__file__).parents[1] / "experiments" / "bench" / "step.py"


@pytest.fixture(scope="module")
def step():
    spec = importlib.util.spec_from_file_location("bench_step", STEP)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


ARGS = Namespace(vocab=64, hidden=64, layers=1, hindsight=6, repetitions=1, threads=1, memory="24/8/2",
                 memory_vocab=64)


@pytest.mark.slow
def test_all_ways_of_a_small_shape_agree_and_are_reported(step):
    row = step.measure(step.Shape.of("48/40/2/2"), ARGS)
    seconds = row["seconds"]
    assert row["shape"] == "48/40/2/2" and row["tokens"] == 2 * 88
    assert row["speedup"]["plain"] == pytest.approx(seconds["plain"] / seconds["ours"])
    assert row["teacher"]["periodic of ours"] == pytest.approx(seconds["periodic"] / seconds["ours"])
    text = step.tables({"time": [row], "memory": {}})
    assert "48/40/2/2" in text and f"{row['speedup']['masked']:.2f}" in text


def test_ways_that_disagree_are_not_compared(step):
    with pytest.raises(SystemExit, match="one gives"):
        step.check({"ours": (0.5, 1.0), "one": (0.5, 1.1)})


def test_ratios_are_medians_over_pairs(step):
    seconds = {way: [4.0, 8.0, 9.0] for way in step.WAYS} | {"ours": [1.0, 4.0, 3.0], "live": [2.0, 5.0, 3.3],
                                                             "periodic": [1.0, 2.0, 3.0]}
    found = step.summary(seconds)
    assert found["speedup"]["plain"] == 3.0 and found["teacher"]["live of ours"] == 0.25
    assert found["teacher"]["periodic of plain"] == 0.25 and found["seconds"]["live"] == 3.3


@pytest.mark.slow
def test_memory_is_measured_in_processes_of_their_own(step):
    found = step.measure_memory(ARGS)
    assert set(found["mib"]) == {*step.WAYS, *step.TEACHERS} and all(mib > 0 for mib in found["mib"].values())
