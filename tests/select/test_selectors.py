from serl.select import first, oracle, vote


def candidate(key, status="ok", correct=False):
    return {
        "sql": "SELECT 1",
        "status": status,
        "correct": correct,
        "result_key": key,
        "turns": 1,
        "tokens": 5,
        "mean_logprob": -0.1,
        "text": "",
    }


def test_first_takes_the_first_even_when_it_failed():
    assert first.pick([candidate(None, "error"), candidate("a")]) == 0


def test_every_selector_answers_none_for_no_candidates():
    assert [selector.pick([]) for selector in (first, vote, oracle)] == [None, None, None]


def test_vote_takes_the_earliest_member_of_the_largest_group():
    assert vote.pick([candidate(key) for key in "abcb"]) == 1


def test_vote_breaks_a_tie_by_the_earliest_first_member():
    assert vote.pick([candidate(key) for key in "cabba"]) == 1  # a and b have two each; a came first
    assert vote.pick([candidate(key) for key in "ba"]) == 0


def test_errors_never_vote_even_when_they_are_most():
    failed = [
        candidate("same", status) for status in ("error", "timeout", "denied", "infrastructure", "none")
    ]
    assert vote.pick([*failed, candidate("a", "empty")]) == 5
    assert vote.pick(failed) is None


def test_an_answer_without_a_key_cannot_vote():
    assert vote.pick([candidate(None), candidate(None), candidate("a")]) == 2


def test_vote_does_not_look_at_gold():
    assert vote.pick([candidate("a"), candidate("a"), candidate("b", correct=True)]) == 0


def test_oracle_finds_the_first_correct_one_or_none():
    assert oracle.pick([candidate("a"), candidate("b", correct=True), candidate("b", correct=True)]) == 1
    assert oracle.pick([candidate("a")]) is None
