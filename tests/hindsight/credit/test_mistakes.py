"""Does a score find the wrong tokens? AUC with ties, its interval, and the table from a run's records."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.errors import InputError
from serl.hindsight.credit.auc import auc, estimate
from serl.hindsight.credit.candidate import of_trajectory
from serl.hindsight.credit.mistakes import find_mistakes, markdown, read_records
from serl.hindsight.credit.sources import none
from serl.io import write_jsonl
from tests.hindsight.credit.played import PIECE, played, recorded, text_of

GOLD = "SELECT name FROM city WHERE area > 5"
WRONG = "SELECT name FROM city WHERE people > 5"


@pytest.mark.parametrize(("scores", "wrong", "expected"), [
    ([3, 1], [True, False], 1.0),
    ([1, 3], [True, False], 0.0),
    ([2, 2], [True, False], 0.5),
    ([3, 1, 2, 2], [True, False, True, False], 0.875),  # pairs 3>1, 3>2, 2>1, 2=2: 3.5 of 4
    ([5, 5, 5, 1], [True, True, False, False], 0.75),  # 5=5, 5>1, twice
    ([1, 2], [True, True], None),
    ([], [], None),
])
def test_auc_by_hand(scores, wrong, expected):
    assert auc(scores, wrong) == expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20))
def test_auc_is_the_share_of_pairs_in_the_right_order(tokens):
    scores, wrong = zip(*tokens)
    pairs = [(a > b) + (a == b) / 2 for a, bad in tokens for b, good in tokens if bad and not good]
    found = auc(scores, wrong)
    assert found == pytest.approx(sum(pairs) / len(pairs)) if pairs else found is None


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        auc([1.0, float("nan")], [True, False])


def test_the_interval_comes_from_questions_holds_the_value_and_is_the_same_again():
    rng = random.Random(0)
    tokens = [(question, rng.random() < 0.3) for question in range(30) for _ in range(20)]
    scores = [wrong + rng.gauss(0, 1) for _, wrong in tokens]
    questions, wrong = zip(*tokens)
    found = estimate(scores, wrong, questions)
    assert found == estimate(scores, wrong, questions)
    assert found.low < found.value < found.high and (found.tokens, found.questions) == (600, 30)
    one_question = estimate(scores, wrong, ["same"] * 600)
    assert one_question.low == one_question.value == one_question.high  # nothing to resample


def test_the_table_tells_a_source_that_finds_the_mistake_from_one_that_does_not():
    trajectory, sibling = played(WRONG), played(GOLD)
    candidate = of_trajectory(trajectory, PIECE, False)
    (bad, *rest) = [token for token in candidate.scope if "people".startswith(text_of(trajectory, {token}).strip()[:1])
                    and text_of(trajectory, {token}).strip()]
    student = {token: -0.01 for token in candidate.scope} | {bad: -2.0, candidate.tokens[0]: -0.5}
    teacher = {token: -1.0 for token in candidate.scope} | {bad: -0.5}
    records = [recorded(trajectory, GOLD, False, 0, student=student, teacher=teacher),
               recorded(sibling, GOLD, True, 1),
               recorded(played("SELECT name FROM"), GOLD, False, 2),
               recorded(played("SELECT city.name FROM city WHERE area > 5"), GOLD, False, 3)]
    table = find_mistakes(records, {}, PIECE, extra={"silent": none})
    assert (table.samples, table.unparsed, table.unexplained) == (1, 1, 1)
    rows = {row.source: row for row in table.rows}
    assert set(rows) == {"teacher_gap", "sibling_contrast", "surprisal"}
    assert rows["sibling_contrast"].overall.value == 1.0
    assert rows["surprisal"].first.value == 1.0
    assert rows["surprisal"].uncertain.tokens == 2 and rows["surprisal"].uncertain.value == 1.0
    assert rows["teacher_gap"].overall.value < 0.5
    assert rows["surprisal"].overall.tokens == len(candidate.scope)
    lines = markdown(table).splitlines()
    assert len(lines) == 5 and lines[3].startswith("| sibling_contrast | 1.00 (1.00–1.00) |")
    assert table.to_json()["rows"][0]["overall"]["questions"] == 1


def test_without_siblings_of_its_own_group_a_failure_has_no_contrast():
    records = [recorded(played(WRONG), GOLD, False, question_id="1"),
               recorded(played(GOLD), GOLD, True, question_id="2")]
    assert [row.source for row in find_mistakes(records, {}, PIECE).rows] == ["surprisal"]


def test_records_are_read_from_a_run_folder_the_last_steps_if_asked(tmp_path):
    for step in range(3):
        write_jsonl(tmp_path / "trajectories" / f"step_{step:06d}.jsonl", [{"step": step}])
    assert [record["step"] for record in read_records(tmp_path)] == [0, 1, 2]
    assert [record["step"] for record in read_records(tmp_path, last=2)] == [1, 2]
    with pytest.raises(InputError, match="no trajectories"):
        list(read_records(tmp_path / "none"))
