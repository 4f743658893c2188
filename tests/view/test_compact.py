"""What the page is told of a trajectory, checked number by number."""

import pytest

from serl.view.compact import answer, facts, group_details, mended, verdict
from serl.view.explorer import trajectory_archive


@pytest.mark.parametrize(("kind", "expected"), [
    ("corrected", "corrected"), ("correct", "correct"), ("wrong", "wrong"), ("malformed", "wrong")])
def test_a_verdict_says_what_happened(trajectory, kind, expected):
    assert verdict(trajectory(1, kind)) == expected


def test_a_sample_lost_to_the_sandbox_is_neither_right_nor_wrong(trajectory):
    assert verdict(trajectory(1, "wrong") | {"reward": None}) == "lost"


def test_the_facts_of_a_row(trajectory):
    row = trajectory(1, "wrong")  # 6 of prompt, 4 before the SQL, its 4 words, the closing tag, the observation
    acting = range(10, 14)
    found = facts(row)
    # Student −0.1 − 0.05 (i mod 7), teacher −0.2 + 0.03 (i mod 11), ω 1 + 0.02 ((i mod 11) − 5).
    gaps = [-0.1 + 0.03 * (index % 11) + 0.05 * (index % 7) for index in acting]
    assert found["gap"] == pytest.approx(sum(gaps) / 4, abs=1e-4)
    assert found["reach"] == 0.1 and found["tokens"] == 4 and found["status"] == "ok" and found["turns"] == 1


def test_only_sampled_tokens_are_kept_with_their_numbers(trajectory):
    document = group_details([trajectory(1, "wrong")])
    turn = document["trajectories"][0]["turns"][0]
    assert turn["tokens"][3:] == ["<sql>", "SELECT", " COUNT(*)", " FROM", " driver", "</sql>"]
    assert turn["sql"] == [4, 8] and turn["acts"] == "000011110"
    assert turn["student"][4] == -0.25 and turn["teacher"][4] == 0.1 and turn["gap"][4] == 0.35  # token 10
    assert turn["weight"][4] == 1.1 and turn["student"][0] is None


@pytest.mark.parametrize(("tokens", "text", "expected"), [
    (["a", " b", "<|im_end|>"], "a b", ["a", " b", "<|im_end|>"]),
    (["M", "\ufffd", "\ufffd", "ller", "<|im_end|>"], "Müller", ["M", "ü", "", "ller", "<|im_end|>"]),
    (["\ufffd", "\ufffd\ufffd"], "漢", ["漢", ""]),
    (["é\ufffd", "\ufffd", "é"], "éüé", ["éü", "", "é"]),
    (["\ufffd", "x"], "\ufffdx", ["\ufffd", "x"]),  # sampled bytes that are none
    ([], "", []),
])
def test_a_character_of_several_tokens_stands_in_the_first(tokens, text, expected):
    assert mended(tokens, text) == expected


def test_samples_of_a_group_share_their_prompt(trajectory):
    document = group_details([trajectory(1, "wrong"), trajectory(1, "correct")])
    assert len(document["prompts"]) == 1 and document["prompts"][0].startswith("<|im_start|>user")
    assert [each["prompt"] for each in document["trajectories"]] == [0, 0]


def test_runs_of_before_the_evidence_was_kept_show_teacher_less_student(trajectory):
    row = trajectory(1, "wrong")
    old = {key: value for key, value in row.items() if key != "gaps"}
    assert facts(old)["gap"] == facts(row)["gap"]


def test_the_index_counts_groups_and_holds_each_question_once(trajectory):
    class Chosen:
        recorded = 9

        def groups(self):
            again = trajectory(2, "wrong") | {"question_id": "wrong-1"}
            return iter([[trajectory(1, "wrong"), trajectory(1, "wrong")], [again]])

    index, archive = trajectory_archive(Chosen())
    assert index["groups"] == [{"step": 1, "question": 0, "size": 2}, {"step": 2, "question": 0, "size": 1}]
    assert [question["id"] for question in index["questions"]] == ["wrong-1"]
    assert index["recorded"] == 9 and index["reach"] == 0.1 and index["gaps_recorded"] is True
    assert len(index["columns"]["reward"]) == 3 and len(archive.elements()) == 1


def test_long_cells_are_cut_and_bytes_keep_their_form():
    rows = [["x" * 500, {"hex": "00" * 300}, None, 1.5]]
    told = answer({"status": "ok", "columns": ["a"], "rows": rows, "row_count": 1, "error": None, "ms": 1.0})
    assert told["rows"][0][0] == "x" * 199 + "…" and told["rows"][0][1]["hex"][-1] == "…"
    assert told["rows"][0][2:] == [None, 1.5] and told["error"] == ""
    assert answer(None) is None
