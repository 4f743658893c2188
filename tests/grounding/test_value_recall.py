"""The real value task: recall of the shipped weights, which were learnt on other databases, stays as it was measured.

Measured: 98.5 to 99.0 at 10 and 72 to 74 at 1, over 408 targets. The bounds leave room for rounding elsewhere.
"""

import json

import pytest

from grounding.cli import main

LEAST = {"all": {"1": 0.70, "10": 0.975}, "verbatim": {"10": 1.0}, "case-differs": {"10": 1.0},
         "morph/typo": {"10": 0.96}, "short<=2": {"10": 0.8}}


@pytest.mark.slow
def test_recall_on_the_value_task(shared_data, tmp_path, capsys):
    task = shared_data / "value_task" / "spider_dev.jsonl"
    assert main(["eval", "--task", str(task), "--root", str(shared_data), "--cache", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["values"]
    for kind, least in LEAST.items():
        for cut, bound in least.items():
            assert found[kind][cut]["value"] >= bound, (kind, cut, found[kind][cut])
