import json

import pytest

from serl.evaluate.dialogue import dialogue_match, interaction_match

# Interactions of 2, 3 and 6 turns; all of `a` is right, of `b` all but the last, of `c` all but two.
TURNS = {"a": 2, "b": 3, "c": 6}
VERDICTS = {("a", 1): True, ("a", 2): True, ("b", 1): True, ("b", 2): True, ("b", 3): False}
VERDICTS |= {("c", 1): False, ("c", 2): True, ("c", 3): True, ("c", 4): True, ("c", 5): True, ("c", 6): False}


def test_questions_count_each_and_interactions_only_whole():
    match = dialogue_match(TURNS, VERDICTS)
    assert (match.question_match.value, match.question_match.n) == (8 / 11, 11)
    assert (match.interaction_match.value, match.interaction_match.n) == (1 / 3, 3)
    by_turn = {group: (estimate.value, estimate.n) for group, estimate in match.by_turn.items()}
    assert by_turn == {"1": (2 / 3, 3), "2": (1, 3), "3": (1 / 2, 2), "4": (1, 1), ">4": (1 / 2, 2)}
    assert (match.missing, match.excluded, match.extra) == ((), (), ())


def test_a_missing_turn_is_wrong_and_reported():
    verdicts = {turn: verdict for turn, verdict in VERDICTS.items() if turn != ("a", 2)}
    match = dialogue_match(TURNS, verdicts)
    assert (match.question_match.value, match.question_match.n) == (7 / 11, 11)
    assert match.interaction_match.value == 0
    assert match.missing == (("a", 2),)


def test_an_interaction_that_is_missing_altogether_is_wrong():
    match = dialogue_match({"a": 2, "z": 1}, {("a", 1): True, ("a", 2): True})
    assert (match.question_match.value, match.interaction_match.value) == (2 / 3, 1 / 2)
    assert match.missing == (("z", 1),)


def test_a_turn_that_cannot_be_scored_is_left_out_and_its_interaction_judged_on_the_rest():
    match = dialogue_match(TURNS, {**VERDICTS, ("b", 3): None})
    assert (match.question_match.value, match.question_match.n) == (8 / 10, 10)
    assert match.interaction_match.value == 2 / 3
    assert match.excluded == (("b", 3),)
    nothing = dialogue_match({"a": 1}, {("a", 1): None})
    assert (nothing.question_match, nothing.interaction_match, nothing.by_turn) == (None, None, {})


def test_verdicts_on_turns_that_there_are_not_count_for_nothing():
    match = dialogue_match({"a": 2}, VERDICTS)
    assert (match.question_match.value, match.interaction_match.value) == (1, 1)
    assert match.extra[0] == ("b", 1) and len(match.extra) == 9


def test_the_interval_of_question_match_is_over_interactions():
    # Ten interactions of ten turns, half of them all right: as uncertain as ten answers, not as a hundred.
    turns = {str(i): 10 for i in range(10)}
    verdicts = {(str(i), turn): i < 5 for i in range(10) for turn in range(1, 11)}
    estimate = dialogue_match(turns, verdicts).question_match
    # The normal approximation: 1.96 · √(0.25 / 10) = 0.31 on each side; turns taken alone would give 0.098.
    assert estimate.low == pytest.approx(0.5 - 0.31, abs=0.05)
    assert estimate.high == pytest.approx(0.5 + 0.31, abs=0.05)


def record(question_id: str, score: float | None, status: str = "ok") -> dict:
    return {"question_id": question_id, "pred_status": status, "metrics": {"em": {"score": score, "reason": ""}}}


def test_records_are_grouped_by_interaction_in_their_order():
    records = [record("0", 1.0), record("1", 1.0), record("2", 0.0), record("3", 1.0), record("4", None)]
    match = interaction_match(records, ["a", "a", "b", "b", None], "em")
    assert (match.question_match.value, match.interaction_match.value) == (3 / 4, 1 / 2)
    assert {group: estimate.value for group, estimate in match.by_turn.items()} == {"1": 1 / 2, "2": 1}
    left_out = interaction_match(records, ["a", "a", "b", "b", "b"], "em")
    assert left_out.excluded == (("b", 3),)
    assert json.loads(json.dumps(left_out.to_json()))["interaction_match"]["value"] == 1 / 2


def test_records_without_a_prediction_are_missing_turns():
    records = [record("0", 1.0), record("1", 0.0, "missing"), record("2", None, "missing")]
    match = interaction_match(records, ["a", "a", "a"], "em")
    assert (match.question_match.value, match.interaction_match.value) == (1 / 2, 0)
    assert (match.missing, match.excluded) == ((("a", 2),), (("a", 3),))


def test_a_score_between_0_and_1_is_no_verdict():
    with pytest.raises(ValueError, match="question 7: em is 0.4"):
        interaction_match([record("7", 0.4)], ["a"], "em")


@pytest.mark.parametrize(("name", "interactions", "turns"), [("sparc", 422, 1203), ("cosql", 293, 1007)])
def test_real_interactions_lose_exactly_what_is_wrong(shared_data, name, interactions, turns):
    counts = {
        str(i): len(session["interaction"])
        for i, session in enumerate(json.loads((shared_data / name / "dev.json").read_text(encoding="utf-8")))
    }
    right = {(key, turn): True for key, count in counts.items() for turn in range(1, count + 1)}
    match = dialogue_match(counts, right)
    assert (match.question_match.value, match.question_match.n) == (1, turns)
    assert (match.interaction_match.value, match.interaction_match.n) == (1, interactions)
    one_wrong = dialogue_match(counts, {**right, ("0", 1): False, ("1", 1): False, ("1", 2): False})
    assert one_wrong.question_match.value == (turns - 3) / turns
    assert one_wrong.interaction_match.value == (interactions - 2) / interactions
