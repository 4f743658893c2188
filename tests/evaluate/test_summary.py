import json

import pytest

from serl.evaluate.summary import read_summaries, summarize
from serl.evaluate.table import markdown_table, plain_table

WRONG, RIGHT, FAILED = ("wrong", "ok", False), ("right", "ok", True), (None, "error", False)
LOST = (None, "infrastructure", False)


def candidate(key, status, correct):
    return {"result_key": key, "status": status, "correct": correct, "sql": "SELECT 1"}


def row(greedy, samples, seen=True, difficulty="simple", gold="ok"):
    return {
        "gold": {"status": gold},
        "seen": seen,
        "difficulty": difficulty,
        "greedy": candidate(*greedy),
        "samples": [candidate(*sample) for sample in samples],
    }


ROWS = [
    row(RIGHT, [RIGHT, RIGHT, WRONG, FAILED]),
    row(WRONG, [WRONG, WRONG, RIGHT, FAILED], difficulty="moderate"),
    row(FAILED, [FAILED, FAILED, FAILED, FAILED], seen=False),
    row(RIGHT, [FAILED, FAILED, FAILED, RIGHT], seen=False, difficulty="challenging", gold="empty"),
    row(RIGHT, [RIGHT] * 4, gold="timeout"),
]


def values(metrics):
    return {name: estimate["value"] for name, estimate in metrics.items()}


def test_metrics_are_those_counted_by_hand():
    summary = summarize(ROWS, "sft", n=4, seconds=12.5)
    assert (summary["stage"], summary["n"], summary["seconds"]) == ("sft", 4, 12.5)
    assert values(summary["splits"]["seen"]) == {
        "greedy": 0.5,
        "mean@4": 3 / 8,
        "vote@4": 0.5,
        "oracle@4": 1.0,
    }
    # A single correct answer among errors wins the vote, for errors have none.
    assert values(summary["splits"]["unseen"]) == {
        "greedy": 0.5,
        "mean@4": 1 / 8,
        "vote@4": 0.5,
        "oracle@4": 0.5,
    }
    assert values(summary["splits"]["all"]) == {
        "greedy": 0.5,
        "mean@4": 0.25,
        "vote@4": 0.5,
        "oracle@4": 0.75,
    }


def test_questions_without_a_gold_result_are_left_out_and_counted():
    summary = summarize(ROWS, "sft", n=4, seconds=0)
    assert (summary["questions"], summary["excluded"]) == (4, 1)
    assert summary["splits"]["all"]["greedy"]["n"] == 4


def test_difficulties_come_from_easy_to_hard():
    assert list(summarize(ROWS, "sft", n=4, seconds=0)["by_difficulty"]) == [
        "simple",
        "moderate",
        "challenging",
    ]


def test_only_the_first_n_samples_count():
    metrics = summarize(ROWS, "sft", n=2, seconds=0)["splits"]["seen"]
    assert values(metrics) == {"greedy": 0.5, "mean@2": 0.5, "vote@2": 0.5, "oracle@2": 0.5}


def test_a_failure_of_the_sandbox_is_counted_and_not_scored_as_wrong():
    summary = summarize([row(LOST, [LOST, RIGHT]), row(RIGHT, [LOST, LOST])], "rl", n=2, seconds=0)
    metrics = summary["splits"]["all"]
    assert summary["infrastructure"] == 4
    assert values(metrics) == {"greedy": 1.0, "mean@2": 1.0, "vote@2": 1.0, "oracle@2": 1.0}
    assert [metrics[name]["n"] for name in metrics] == [1, 1, 1, 1]


def test_without_samples_only_greedy_is_reported_and_an_empty_split_is_empty():
    summary = summarize([row(RIGHT, [])], "init", n=0, seconds=0)
    assert list(summary["splits"]["seen"]) == ["greedy"]
    assert summary["splits"]["unseen"] == {}


def test_a_summary_survives_json_and_stages_are_read_in_training_order(tmp_path):
    for stage in ("rl", "extra", "init", "sft"):
        folder = tmp_path / "eval" / stage
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(summarize(ROWS, stage, n=4, seconds=1.0)))
    summaries = read_summaries(tmp_path)
    assert [summary["stage"] for summary in summaries] == ["init", "sft", "rl", "extra"]
    assert summaries[0] == summarize(ROWS, "init", n=4, seconds=1.0)


@pytest.fixture
def two_stages():
    return [summarize([row(WRONG, [])] * 10, "init", 0, 0), summarize([row(RIGHT, [RIGHT])] * 10, "rl", 1, 0)]


def test_the_terminal_table_aligns_stages_under_metrics_within_80_columns(two_stages):
    lines = plain_table(two_stages).splitlines()
    assert lines[1].split() == ["greedy", "mean@1", "vote@1", "oracle@1"]
    assert lines[2] == "seen (10)"
    assert lines[3].split() == ["init", "0.0", "(0.0–27.8)", "–", "–", "–"]
    assert lines[4].split()[:3] == ["rl", "100.0", "(72.2–100.0)"]
    assert lines[3].index("0.0") == lines[4].index("100.0") == lines[1].index("greedy")
    assert not any(line.startswith("unseen") for line in lines)


def test_the_markdown_table_has_one_row_a_stage_and_group(two_stages):
    lines = markdown_table(two_stages).splitlines()
    assert lines[0] == "| questions | stage | greedy | mean@1 | vote@1 | oracle@1 |"
    assert lines[2] == "| seen (10) | init | 0.0 (0.0–27.8) | – | – | – |"
    assert {line.count("|") for line in lines} == {7}


def test_the_terminal_table_may_show_some_metrics_only(two_stages):
    lines = plain_table(two_stages, ["greedy", "mean@1"]).splitlines()
    assert lines[1].split() == ["greedy", "mean@1"] and "upper bound" in lines[0]
    assert lines[4].split() == ["rl", "100.0", "(72.2–100.0)", "100.0", "(100.0–100.0)"]


def test_selectors_are_compared_at_every_n_where_there_are_samples():
    summary = summarize(ROWS, "sft", n=4, seconds=0)
    at = summary["selection"]["splits"]["all"]["at"]
    assert [at[n]["vote"]["value"]["value"] for n in ("1", "2", "4")] == [0.25, 0.25, 0.5]
    assert at["4"]["oracle"]["value"]["value"] == summary["splits"]["all"]["oracle@4"]["value"]
    assert "selection" not in summarize(ROWS, "sft", n=0, seconds=0)
