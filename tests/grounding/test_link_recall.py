"""Real questions: what hybrid links keep and what a budget leaves of it stays as it was measured.

Measured on 104 questions of Spider dev without an encoder: see the bounds, which leave room for three questions.
"""

import json

import pytest

from grounding.cli import main

LEAST = {("hybrid", None): 0.97, ("hybrid", 96): 0.96, ("full", 96): 0.96, ("oracle", 96): 1.0}
"""Share of questions all of whose gold columns are shown, by links and budget."""


@pytest.mark.slow
def test_strict_recall_by_links_and_budget(shared_data, tmp_path, capsys):
    options = ["--encoder", "none", "--limit", "104", "--budgets", "none", "96", "--cache", str(tmp_path), "--json"]
    assert main(["eval", "--format", "spider", "--root", str(shared_data / "spider"), *options]) == 0
    rows = {(row["links"], row["budget"]): row["measures"] for row in json.loads(capsys.readouterr().out)["rows"]}
    for place, least in LEAST.items():
        assert rows[place]["column recall, strict"]["value"] >= least, place
    assert rows["hybrid", None]["table recall, strict"]["value"] >= 0.97
    assert rows["oracle", None]["table precision"]["value"] == 1.0
    assert rows["oracle", None]["tokens saved"]["value"] > 0.6
