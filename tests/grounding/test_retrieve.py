"""V_q: which values are found, where, and in what order."""

import pytest

from grounding import Grounder, GroundingConfig, Request

KEEP_ALL = GroundingConfig(min_score=0.0)


def values_for(question, path, cache, encoder="none", config=KEEP_ALL):
    return Grounder(cache, encoder, config).ground(Request(question, path)).values


@pytest.mark.parametrize(
    ("question", "column", "value", "channel"),
    [
        ("Who won the Italian Grand Prix?", "name", "ITALIAN GRAND PRIX", "exact"),
        ("Which races did Jensen Buton win?", "name", "Jenson Button", "trigram"),
        ("Where did 'Pat O'Ward' finish?", "name", "Pat O'Ward", "exact"),
    ],
)
def test_values_are_found_whatever_their_case_or_spelling(racing, tmp_path, question, column, value, channel):
    best = values_for(question, racing, tmp_path / "cache")[0]
    assert (best.column, best.value, best.channel) == (column, value, channel)
    assert best.score == 1.0 if channel == "exact" else 0.5 < best.score < 1.0


def test_a_value_of_other_words_is_found_by_meaning(racing, tmp_path):
    question = "How many points did drivers from the United Kingdom get?"
    assert "British" not in [match.value for match in values_for(question, racing, tmp_path / "cache")]
    dense = values_for(question, racing, tmp_path / "cache", encoder="minilm")
    (british,) = [match for match in dense if match.value == "British"]
    assert (british.column, british.channel) == ("nationality", "dense") and british.score > 0.5


def test_of_two_columns_that_hold_a_value_the_one_the_question_names_is_first(make_database, tmp_path):
    path = make_database("CREATE TABLE team (home TEXT, origin TEXT); INSERT INTO team VALUES ('Oslo', 'Oslo');")
    found = values_for("teams whose origin is Oslo", path, tmp_path / "cache")
    assert [match.column for match in found] == ["origin", "home"]


def test_spellings_of_one_value_in_a_column_are_one_match_the_commonest(make_database, tmp_path):
    path = make_database("CREATE TABLE t (city TEXT); INSERT INTO t VALUES ('OSLO'), ('Oslo'), ('Oslo'), ('oslo');")
    assert [match.value for match in values_for("people in OSLO", path, tmp_path / "cache")] == ["Oslo"]


def test_the_best_k_are_returned_and_poor_matches_are_dropped(make_database, tmp_path):
    rows = ", ".join(f"('Lake Resort {i}')" for i in range(50))
    path = make_database(f"CREATE TABLE t (name TEXT); INSERT INTO t VALUES {rows}, ('Lake Resort');")
    found = values_for("Lake Resort", path, tmp_path / "cache", config=GroundingConfig(top_values=3, min_score=0.0))
    assert len(found) == 3 and found[0].value == "Lake Resort"
    strict = values_for("Lake Resort", path, tmp_path / "cache", config=GroundingConfig(min_score=0.99))
    assert [match.value for match in strict] == ["Lake Resort"]


def test_many_questions_at_once_are_answered_as_one_by_one(racing, make_database, tmp_path):
    other = make_database("CREATE TABLE city (name TEXT); INSERT INTO city VALUES ('Oslo');", name="cities")
    requests = [
        Request("Who is British?", racing),
        Request("people in Oslo", other),
        Request("", racing),
        Request("Monaco", racing, evidence="a principality"),
    ]
    together = Grounder(tmp_path / "a", "minilm").ground_many(requests)
    alone = [Grounder(tmp_path / "a", "minilm").ground(request) for request in requests]
    assert together == alone


def test_the_runner_up_of_an_exact_match_is_dropped_but_another_mention_is_not(make_database, tmp_path):
    path = make_database(
        "CREATE TABLE t (name TEXT); INSERT INTO t VALUES ('Tina Robertson'), ('Tim Robertson'), ('Oleander');"
    )
    question = "Does 'Tina Robertson' like the oleanders?"
    assert {m.value for m in values_for(question, path, tmp_path)} == {"Tina Robertson", "Tim Robertson", "Oleander"}
    strict = values_for(question, path, tmp_path, config=GroundingConfig(min_score=0.5))
    assert {match.value for match in strict} == {"Tina Robertson", "Oleander"}
