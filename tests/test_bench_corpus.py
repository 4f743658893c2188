"""The benchmark of a corpus: what is measured on a small one, and what a large one would cost by proportion."""

import argparse
import importlib.util
import sys
from pathlib import Path

import pytest

from serl.data.minibird import generate

CORPUS = Path(__file__).parents[1] / "experiments" / "bench" / "corpus.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_corpus", CORPUS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_costs_are_of_one_and_grow_in_proportion(bench, tmp_path):
    generate(tmp_path / "data", train=12, dev=12, unseen=4)
    args = argparse.Namespace(root=tmp_path / "data", format="bird", split="train", sample=12, questions=10**6,
                              databases=100, values=50, prompt=1000)
    found = bench.measure(args, tmp_path)
    assert found["gold: bytes on disk, median"] <= found["gold: bytes on disk, most"]
    assert found["question: bytes"] < found["question: bytes at most"]
    assert found["index: bytes a value"] * found["index: values"] == pytest.approx(
        found["index: bytes a database"] * found["index: databases"])
    total = bench.scaled(found, args)
    assert total["questions, GB of memory"] == pytest.approx(found["question: bytes"] / 1000)
    assert total["index, GB by values"] == pytest.approx(5e-6 * found["index: bytes a value"])
    assert total["prepared, MB a question"] == pytest.approx(found["prompt: bytes a token"] / 1000)
    assert "index, files" in bench.table(found, total)
