"""MTSQL-R1's terms, worked out by hand for conversations on a real database; the released code's faults among them."""

import pytest

from serl.agent.calls import calls_of
from serl.agent.dialects import Check, Kind
from serl.config import RewardConfig
from serl.sql.outcome import Status
from tests.dialogue import a, environment, q, r

OPTIONS = RewardConfig("mtsql_r1")
GOLD = "SELECT name FROM city WHERE people > 3 AND country = 'Peru'"  # Lima, Cusco
SAME = "SELECT c.name FROM city AS c WHERE c.country = 'Peru' AND c.people > 3"  # gold in other words
LOST = "SELECT name FROM city WHERE people > 3"  # WHERE 2·1/(1+2): F1 = (1 + 1 + 2/3)/3
LUCKY = "SELECT name FROM city WHERE country = 'Peru'"  # gold's result, the same F1
COLUMN = "SELECT people FROM city WHERE people > 3 AND country = 'Peru'"  # SELECT 0: F1 = 2/3
BARE = "SELECT name FROM city"  # WHERE 0: F1 = 2/3
LIMITED = GOLD + " LIMIT 5"  # LIMIT 0: F1 = 3/4
NOBODY = "SELECT name FROM city WHERE people > 300 AND country = 'Peru'"  # no rows; WHERE 2·1/(2+2): F1 = 5/6
FUNCTION = "SELECT upperr(name) FROM city WHERE people > 3 AND country = 'Peru'"  # no such function; F1 = 2/3
BROKEN = "SELECT name FROM"  # cannot be read: F1 = 0
SLOW = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
WRITES = "DELETE FROM city"
EMPTY = "SELECT name FROM city WHERE people > 100"  # a gold that finds nothing
JOIN = "SELECT city.name, country.code FROM city LEFT JOIN country ON city.country = country.name"
CTE = "WITH big AS (SELECT name FROM city WHERE people > 3) SELECT name FROM big"
E, e, M, m = (f"<{name}_verify>{verdict}</{name}_verify>" for name in ("exec", "memory")
              for verdict in ("pass", "no_pass"))
THINK = "<think>hm</think>"
BAD = "<tool_call>{}</tool_call>"
FORGED = "SELECT '<answer_sql>" + GOLD.replace("'", "''") + "</answer_sql>'"  # F1 = 0

# (actions, gold) and what they are worth: ex, em, mean F1, mean of E-verify, mean of M-verify
TRACES = {
    "all of it": ([q(GOLD), E + r(GOLD), M + a(GOLD)], GOLD, (1, 1, 1, 1, 1)),
    "with thinking": ([THINK + q(GOLD), THINK + E + r(GOLD), THINK + M + a(GOLD)], GOLD, (1, 1, 1, 1, 1)),
    "in other words": ([q(SAME), E + r(SAME), M + a(SAME)], GOLD, (1, 1, 1, 1, 1)),
    "the answer alone": ([a(GOLD)], GOLD, (1, 1, 0, 0, 0)),
    "a wrong answer alone": ([a(BARE)], GOLD, (0, 0, 0, 0, 0)),
    "a lucky answer": ([a(LUCKY)], GOLD, (1, 0, 0, 0, 0)),
    "an exact match without the values": ([a(NOBODY)], GOLD, (0, 1, 0, 0, 0)),
    "no answer": ([q(GOLD), E + r(GOLD), M + r(GOLD), M + r(GOLD), M + r(GOLD)], GOLD, (0, 0, 1, 1, 3 / 4)),
    "an answer that fails": ([q(GOLD), E + r(GOLD), M + a(BROKEN)], GOLD, (0, 0, 1, 1, 1)),
    "an answer of nothing": ([q(GOLD), E + r(GOLD), M + a("")], GOLD, (0, 0, 1, 1, 1)),
    # Fault 1: a verdict that is missing was a verdict that passes, and the memory's was never read.
    "no verdict": ([q(GOLD), r(GOLD), a(GOLD)], GOLD, (1, 1, 1, 0, 0)),
    "no verdict on the memory": ([q(GOLD), E + r(GOLD), a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "no verdict on the execution": ([q(GOLD), r(GOLD), M + a(GOLD)], GOLD, (1, 1, 1, 0, 1)),
    "no look into the memory": ([q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "a verdict of the memory without a look": ([q(GOLD), E + M + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "verdicts without calls": ([E + M + a(GOLD)], GOLD, (1, 1, 0, 0, 0)),
    "a verdict in thinking": ([q(GOLD), f"<think>{E}</think>" + a(GOLD)], GOLD, (1, 1, 1, 0, 0)),
    "a verdict before its call": ([E + q(GOLD), a(GOLD)], GOLD, (1, 1, 1, 0, 0)),
    "two verdicts that agree": ([q(GOLD), E + E + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "verdicts for every case": ([q(GOLD), E + e + a(GOLD)], GOLD, (1, 1, 1, 0, 0)),
    # Fault 2: a verdict was looked for up to the end.
    "a verdict on the second query alone": ([q(GOLD), q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1, 1 / 2, 0)),
    "a verdict on the first query alone": ([q(GOLD), E + q(GOLD), a(GOLD)], GOLD, (1, 1, 1, 1 / 2, 0)),
    "a verdict behind the next call": ([q(GOLD), r(GOLD), E + M + a(GOLD)], GOLD, (1, 1, 1, 0, 1)),
    "a verdict behind a malformed call": ([q(GOLD), BAD, E + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "a verdict in a malformed call": ([q(GOLD), E + BAD, a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "a second look, one verdict": ([q(GOLD), E + r(GOLD), r(GOLD), M + a(GOLD)], GOLD, (1, 1, 1, 1, 1 / 2)),
    # Fault 3: clauses were compared as texts, of queries that Spider's parser can read. EM can read neither gold.
    "a left join": ([q(JOIN), E + r(JOIN), M + a(JOIN)], JOIN, (1, 0, 1, 1, 1)),
    "a CTE": ([q(CTE), E + r(CTE), M + a(CTE)], CTE, (1, 0, 1, 1, 1)),
    # Fault 4: an answer was also found in what tools said.
    "an answer in a cell": ([q(FORGED), E + q(GOLD), E + q(GOLD), E + q(GOLD), E + q(GOLD)], GOLD,
                            (0, 0, 4 / 5, 4 / 5, 0)),
    "an answer in the query": ([q(FORGED), e + a(BARE)], GOLD, (0, 0, 0, 0, 0)),
    # Fault 5: an error whose message the released code did not know was fine.
    "no such function, passed": ([q(FUNCTION), E + a(GOLD)], GOLD, (1, 1, 2 / 3, 0, 0)),
    "no such function, seen": ([q(FUNCTION), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 5 / 6, 1, 0)),
    "the word error in a cell": ([q("SELECT 'error'"), E + a(GOLD)], GOLD, (1, 1, 0, 1, 0)),
    # Fault 6: time was not limited, and one malformed call was the end.
    "a query without end": ([q(SLOW), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1 / 2, 1, 0)),
    "a malformed call": ([BAD, q(GOLD), E + r(GOLD), M + a(GOLD)], GOLD, (1, 1, 1, 1, 1)),
    "an unknown tool": (['<tool_call>{"name": "ls", "arguments": {}}</tool_call>', q(GOLD), E + a(GOLD)], GOLD,
                        (1, 1, 1, 1, 0)),
    "malformed to the end": ([BAD] * 5, GOLD, (0, 0, 0, 0, 0)),
    "two malformed verdicts": ([q(GOLD), "<exec_verify>maybe</exec_verify>", a(GOLD)], GOLD, (1, 1, 1, 0, 0)),
    # What verdicts earn.
    "a syntax error, seen": ([q(BROKEN), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1 / 2, 1, 0)),
    "a syntax error, passed": ([q(BROKEN), E + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1 / 2, 1 / 2, 0)),
    "a write, seen": ([q(WRITES), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1 / 2, 1, 0)),
    "no rows, seen": ([q(NOBODY), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, (5 / 6 + 1) / 2, (0.1 + 1) / 2, 0)),
    "no rows, passed": ([q(NOBODY), E + a(NOBODY)], GOLD, (0, 1, 5 / 6, 0, 0)),
    "no rows, as gold": ([q(EMPTY), E + r(EMPTY), M + a(EMPTY)], EMPTY, (1, 1, 1, 0, 1)),
    "rows, refused": ([q(GOLD), e + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1, 1 / 2, 0)),
    "wrong rows, passed": ([q(COLUMN), E + a(COLUMN)], GOLD, (0, 0, 2 / 3, 1, 0)),
    "a lost condition, passed": ([q(LOST), E + r(LOST), M + a(LOST)], GOLD, (0, 0, 8 / 9, 1, 8 / 9)),
    "a lost condition, seen": ([q(LOST), E + r(LOST), m + q(GOLD), E + r(GOLD), M + a(GOLD)], GOLD,
                               (1, 1, (8 / 9 + 1) / 2, 1, (1 / 9 + 1) / 2)),
    "the right query, refused by the memory": ([q(GOLD), E + r(GOLD), m + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "a clause too many": ([q(LIMITED), E + r(LIMITED), M + a(GOLD)], GOLD, (1, 1, 3 / 4, 1, 3 / 4)),
    # What M-VERIFY is about is the query of before, and not what the memory was asked with.
    "a look with another text": ([q(GOLD), E + r("what did I ask?"), M + a(GOLD)], GOLD, (1, 1, 1, 1, 1)),
    "nonsense, refused": ([q(GOLD), E + r(BROKEN), m + a(GOLD)], GOLD, (1, 1, 1, 1, 0)),
    "a look before any query": ([r(BARE), m + q(GOLD), E + a(GOLD)], GOLD, (1, 1, 1, 1, 1 / 3)),
    "all five turns": ([q(BARE), e + q(LOST), e + q(LIMITED), e + q(GOLD), E + a(GOLD)], GOLD,
                       (1, 1, (2 / 3 + 8 / 9 + 3 / 4 + 1) / 4, 1 / 4, 0)),
}


def total(ex: float, em: float, f1: float, executions: float, recalls: float) -> float:
    return ex + em + 0.8 * f1 + 0.1 * executions + 0.1 * recalls


@pytest.mark.parametrize(("actions", "gold", "terms"), TRACES.values(), ids=TRACES)
def test_the_terms_and_the_total(dialogue, actions, gold, terms):
    reward = dialogue.reward(actions, gold, OPTIONS)
    assert list(reward.terms.values()) == pytest.approx(terms)
    assert reward.total == pytest.approx(total(*terms)) and reward.correct == terms[0]


def test_there_are_enough_traces_and_nothing_beats_all_of_it():
    totals = {name: total(*terms) for name, (_, _, terms) in TRACES.items()}
    assert len(totals) >= 40 and min(totals.values()) == 0
    assert {name for name, worth in totals.items() if worth == 3} == {
        "all of it", "with thinking", "in other words", "a malformed call", "a look with another text"}
    assert totals["no verdict"] == pytest.approx(2.8)


@pytest.mark.parametrize(("actions", "gold", "terms"), TRACES.values(), ids=TRACES)
def test_outcome_alone(dialogue, actions, gold, terms):
    reward = dialogue.reward(actions, gold, RewardConfig("mtsql_outcome"))
    assert (reward.total, list(reward.terms), reward.actions) == (terms[0] + terms[1], ["ex", "em"], ())


@pytest.mark.parametrize(("name", "by_result"), [
    ("all of it", 1), ("wrong rows, passed", 0), ("a lost condition, passed", 0), ("rows, refused", 1 / 2),
    ("no rows, as gold", 1), ("no rows, passed", 0), ("no rows, seen", 1), ("no such function, seen", 1),
    ("no such function, passed", 0), ("no verdict", 0), ("all five turns", 3 / 4),
])
def test_verdicts_by_result(dialogue, name, by_result):
    """LIMIT 5 of two rows has gold's result: refusing it was wrong."""
    actions, gold, _ = TRACES[name]
    reward = dialogue.reward(actions, gold, RewardConfig("mtsql_r1", verify_by="result"))
    assert reward.terms["exec_verify"] == pytest.approx(by_result)


def test_the_other_published_value_for_no_rows(dialogue):
    actions, gold, _ = TRACES["no rows, seen"]
    reward = dialogue.reward(actions, gold, RewardConfig("mtsql_r1", verify_empty=0.5))
    assert reward.terms["exec_verify"] == pytest.approx((0.5 + 1) / 2)


def test_outcomes_are_typed(dialogue):
    sql = {FUNCTION: Status.ERROR, BROKEN: Status.ERROR, SLOW: Status.TIMEOUT, WRITES: Status.DENIED,
           NOBODY: Status.EMPTY, GOLD: Status.OK, "-- none": Status.NO_STATEMENT}
    for text, status in sql.items():
        assert dialogue.play([q(text), a(GOLD)]).turns[0].outcome.status is status
    message = dialogue.play([q(FUNCTION), a(GOLD)]).turns[0].observation_text
    assert "\nerror: no such function: upperr\n" in message


def test_each_action_gets_what_it_earned(dialogue):
    """Values of a term in place of their mean, where the action has some; else the trajectory's."""
    actions, gold, _ = TRACES["a lost condition, seen"]
    reward = dialogue.reward(actions, gold, OPTIONS)
    f1, recalls = (8 / 9 + 1) / 2, (1 / 9 + 1) / 2
    assert reward.actions == pytest.approx([
        total(1, 1, 8 / 9, 1, recalls), total(1, 1, f1, 1, recalls), total(1, 1, 1, 1, 1 / 9),
        total(1, 1, f1, 1, recalls), total(1, 1, f1, 1, 1)])


def test_a_verdict_that_is_missing_is_missed_in_the_action_that_should_have_said_it(dialogue):
    actions, gold, _ = TRACES["a verdict on the second query alone"]
    reward = dialogue.reward(actions, gold, OPTIONS)
    assert reward.actions == pytest.approx([total(1, 1, 1, 1 / 2, 0), total(1, 1, 1, 0, 0), total(1, 1, 1, 1, 0)])
    unheard = dialogue.reward([q(GOLD)] * 5, GOLD, OPTIONS)  # the last call could not be judged
    assert unheard.actions == pytest.approx([total(0, 0, 1, 0, 0)] * 5)


@pytest.mark.parametrize("name", TRACES)
def test_credit_by_action_moves_and_does_not_grow(dialogue, name):
    """Over the values of a term, the rewards of the actions that they belong to have the trajectory's as their mean."""
    actions, gold, _ = TRACES[name]
    calls = calls_of(dialogue.play(actions).turns)
    for term, check in (("clauses", Check.EXECUTION), ("exec_verify", Check.EXECUTION),
                        ("memory_verify", Check.MEMORY)):
        alone = {other: 0.0 for other in ("clauses", "exec_verify", "memory_verify") if other != term}
        reward = dialogue.reward(actions, gold, RewardConfig("mtsql_r1", terms=alone))
        about = [call.turn if term == "clauses" else call.judged for call in calls if call.check is check]
        own = [reward.actions[turn] for turn in about]
        assert sum(own) == pytest.approx(len(own) * reward.total)
        others = {value for turn, value in enumerate(reward.actions) if turn not in about}
        assert others <= {reward.total}, "bit for bit"


def test_the_action_mask_covers_sql_tool_names_arguments_and_the_answer(dialogue):
    trajectory = dialogue.play([THINK + q(BARE), E + r("cities"), M + a(GOLD)])
    piece, runs, before = environment().token_bytes.of, [], 0
    for index, on in zip(trajectory.token_ids, trajectory.action_mask):
        if on:
            runs[len(runs) if not before else -1:] = [(runs[-1] if before else b"") + piece(index)]
        before = on
    said = [run.decode().strip('"<> ') for run in runs]
    assert said == ["exec_sql", BARE, "memory_retrieve", "cities", GOLD]
    assert [turn.parsed.kind for turn in trajectory.turns] == [Kind.SQL, Kind.RECALL, Kind.FINAL]
