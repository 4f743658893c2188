"""Levels: what each tells, of which turns, in which words; and what it takes from gold and from siblings."""

from dataclasses import replace

import pytest

from serl.config import load_config
from serl.config.hindsight import GOLD_LEVELS, LEVELS, WordingConfig, check_wording
from serl.errors import InputError
from serl.hindsight.context import make_hindsight
from serl.hindsight.facts import Facts, facts_of, know
from serl.hindsight.levels import ContextOptions, told
from serl.hindsight.shape import differences
from serl.hindsight.teacher_only import GoldAnswer, PartAnswers, SiblingSql
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import ROWS, encode
from tests.hindsight.test_context import ERROR, played, text

SHOWN = "2 rows\nname | people\nLima | 10\nCusco | NULL"
GOLD = GoldAnswer("SELECT town -- the name\nFROM place WHERE n<5", Outcome(Status.OK, ("town",), (("Puno",),), 1))
SIBLING = SiblingSql("SELECT name\n  FROM city -- all\n WHERE a<b")
SOLUTION = Facts(ROWS, "SELECT name, people FROM city", True, False, GOLD, SIBLING)
VERDICT = "matches the expected result: no"
DIFF = "compared with the expected result: 2 rows, expected 1; 2 columns, expected 1"
SIBLINGS = "another query that matches the expected result: SELECT name FROM city WHERE a< b"


def at(level: str, **options) -> ContextOptions:
    return ContextOptions(level, allow_gold=level in GOLD_LEVELS, **options)


@pytest.mark.parametrize(("level", "note"), [
    ("exec", ""), ("exec+verdict", VERDICT), ("exec+diff", DIFF), ("exec+sibling", SIBLINGS)])
def test_an_exec_level_tells_the_answer_and_its_note(level, note):
    assert told(SOLUTION, at(level)) == (SHOWN, note)
    body = f"{SHOWN}\n{note}" if note else SHOWN
    assert text(make_hindsight(SOLUTION, at(level), encode)) == f"\n<hindsight>\n{body}\n</hindsight>"


def test_gold_levels_tell_gold_alone():
    assert told(SOLUTION, at("gold_result")) == ("", "expected result:\n1 row\ntown\nPuno")
    assert told(SOLUTION, at("gold_sql")) == ("", "expected query: SELECT town FROM place WHERE n<5")


def test_a_query_on_the_way_is_not_compared_with_gold():
    query = replace(SOLUTION, final=False)
    assert told(query, at("exec+verdict")) == told(query, at("exec+diff")) == (SHOWN, "")
    assert told(query, at("exec+sibling"))[1] == SIBLINGS


def test_what_is_not_known_is_not_told():
    assert told(replace(SOLUTION, correct=None), at("exec+verdict")) == (SHOWN, "")
    assert told(replace(SOLUTION, sibling=None), at("exec+sibling")) == (SHOWN, "")
    assert told(replace(SOLUTION, correct=True), at("exec+verdict"))[1] == "matches the expected result: yes"
    for level in ("exec+diff", *GOLD_LEVELS):
        with pytest.raises(ValueError, match="facts hold none"):
            told(replace(SOLUTION, gold=None), at(level))


@pytest.mark.parametrize("level", GOLD_LEVELS)
def test_gold_needs_the_opt_in(level):
    with pytest.raises(InputError, match="set hindsight.allow_gold to true"):
        ContextOptions(level)
    with pytest.raises(InputError, match="set hindsight.allow_gold to true"):
        replace(ContextOptions("exec"), level=level)
    with pytest.raises(InputError, match=f"hindsight.level {level} shows the teacher gold"):
        load_config(None, [("hindsight.level", level)])
    config = load_config(None, [("hindsight.level", level), ("hindsight.allow_gold", "true")])
    assert ContextOptions.of(config).level == level


def test_the_options_of_a_run_come_from_its_config():
    config = load_config(None, [("hindsight.level", "exec+diff"), ("hindsight.redact", "action"),
                                ("hindsight.budget", "99"), ("agent.observation_rows", "4"),
                                ("agent.observation_chars", "20"), ("hindsight.wording.tag", "after")])
    assert ContextOptions.of(config) == ContextOptions("exec+diff", 99, 4, 20, "action", WordingConfig(tag="after"))
    with pytest.raises(InputError, match="hindsight.level is 'execs'; choose one of exec, "):
        load_config(None, [("hindsight.level", "execs")])


def outcome(*rows: tuple, columns: int | None = None, **other) -> Outcome:
    width = len(rows[0]) if columns is None else columns
    return Outcome(**{"status": Status.OK if rows else Status.EMPTY, "columns": tuple(f"c{i}" for i in range(width)),
                      "rows": rows, "row_count": len(rows), **other})


@pytest.mark.parametrize(("own", "gold", "ordered", "said"), [
    (outcome(("a",), ("b",)), outcome(("x",), ("y",)), False, "the same shape"),
    (outcome(("a",)), outcome(("x",), ("y",)), False, "1 row, expected 2"),
    (outcome(("a",)), outcome((1.5,)), False, "column 1: text, expected number"),
    (outcome((1, "a", None)), outcome((b"x", "y", 3)), False, "column 1: number, expected bytes"),
    (outcome((1, "a"), ("b", "c")), outcome((1, "a"), (2, "c")), False, "column 1: mixed, expected number"),
    (outcome((1,), (2,)), outcome((2,), (1,)), True, "the rows are in another order"),
    (outcome((1,), (2,)), outcome((2,), (1,)), False, "the same shape"),
    (outcome((1, "a"), (2, "b")), outcome(("b", 2), ("a", 1)), False, "the columns are in another order"),
    (outcome((1, "a"), (2, "b")), outcome(("b", 2), ("a", 1)), True,
     "column 1: number, expected text; column 2: text, expected number"),
    (outcome(("a",)), outcome((1, 2)), False, "1 column, expected 2"),
    (outcome(columns=2), outcome((1,), (2,)), False, "0 rows, expected 2; 2 columns, expected 1"),
    (outcome(("a",), status=Status.TOO_LARGE, row_count=9), outcome((1,)), False,
     "more than 1 row, expected 1; column 1: text, expected number"),
    (Outcome(Status.ERROR, error="no such table: t"), outcome((1, 2)), False,
     "no result, expected 1 row and 2 columns"),
])
def test_the_difference_in_shape(own, gold, ordered, said):
    sql = f"SELECT x FROM t{' ORDER BY x' if ordered else ''}"
    assert differences(own, GoldAnswer(sql, gold)) == said


def siblings(finals, correct) -> list[str | None]:
    known = know("1", finals, correct, GOLD)
    return [each.sibling and each.sibling.sql for each in known]


def test_the_sibling_is_the_next_successful_one_and_never_the_trajectorys_own_query():
    group = ["SELECT 1", "SELECT 2", None, "SELECT 3", "select  1; -- again"]
    assert siblings(group, [True, False, False, True, None]) == ["SELECT 3", "SELECT 3", "SELECT 3", "SELECT 1",
                                                                 "SELECT 3"]
    assert siblings(group, [True, False, False, False, True]) == [None, "select  1; -- again", "select  1; -- again",
                                                                  "select  1; -- again", None]
    assert siblings(group, [False] * 5) == [None] * 5


def test_a_sibling_that_differs_in_the_case_of_a_text_only_is_another_query():
    group = ["SELECT a FROM t WHERE b = 'lima'", "select A from T where B = 'Lima'"]
    assert siblings(group, [False, True]) == [group[1], None]


def test_facts_of_a_turn_are_its_own_and_its_trajectorys():
    trajectory = played()
    known = know("7", [trajectory.final_sql, "SELECT 2"], [False, True], GOLD)
    query, solution = (facts_of(turn, known[0]) for turn in trajectory.turns)
    assert query == Facts(ROWS, "SELECT name FROM city", False, False, GOLD, SiblingSql("SELECT 2"))
    asked = replace(known[0], parts={"SELECT name FROM city": PartAnswers(())})
    assert [facts_of(turn, asked).parts for turn in trajectory.turns] == [PartAnswers(()), None]
    assert solution == Facts(ERROR, "SELECT 1", True, False, GOLD, SiblingSql("SELECT 2"))
    assert known[0].question == "7"


def test_words_and_tag_come_from_the_config():
    wording = WordingConfig("after", "The database: {answer}", verdict="Right? {verdict}.")
    check_wording(wording)
    hindsight = make_hindsight(SOLUTION, at("exec+verdict", wording=wording), encode)
    assert text(hindsight) == f"\n<after>\nThe database: {SHOWN}\nRight? no.\n</after>"


@pytest.mark.parametrize(("option", "words", "complaint"), [
    ("verdict", "right", r"must hold the field \{verdict\} once and no other, not none"),
    ("verdict", "{verdict} {sql}", r"not \{verdict\}, \{sql\}"),
    ("sibling", "{sql.__class__}", r"not \{sql.__class__\}"),
    ("diff", "{differences:>9}", r"not \{differences:>9\}"),
    ("gold_sql", "{sql!r}", r"not \{sql!r\}"),
    ("answer", "{answer", "expected '}' before end of string"),
    ("answer", "</hindsight>{answer}", "must not hold < >"),
    ("gold_result", "`{result}`", "must not hold"),
    ("tag", "a b", "must be one plain word"),
    ("tag", "SQL", "which the policy uses"),
])
def test_words_that_cannot_be_used_are_named(option, words, complaint):
    with pytest.raises(InputError, match=rf"hindsight\.wording\.{option} is .*{complaint}"):
        load_config(None, [(f"hindsight.wording.{option}", repr(words))])


def test_every_level_has_its_place_in_the_docs():
    from serl.hindsight import levels

    assert all(f"\n    {level} " in levels.__doc__ for level in LEVELS)
