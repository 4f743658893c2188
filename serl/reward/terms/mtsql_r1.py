"""MTSQL-R1's terms (arXiv 2510.12831), 0 to 3 in all.

    ex              1 if the answer's result equals gold's
    em              1 if the answer is an exact match of gold (Spider's, by clauses); 0 if gold cannot be read
    clauses         0.8 · mean F1 of clauses, over PROPOSE and SELF-CORRECT: all queries that were executed
    exec_verify     0.1 · mean over those queries of what the verdict on their answer earns
    memory_verify   0.1 · mean over the looks into the memory of what the verdict on them earns

    E-VERIFY               pass    no_pass        M-VERIFY, F of the query that is checked
    error, time-out, ...   0       1              pass       F
    no rows                0       0.1            no_pass    1 − F
    rows                   1       0

What no rows earn is `reward.verify_empty` (0.5 is the other published value). With `reward.verify_by` result a verdict
earns 1 if it says whether the result equals gold's, else 0, whatever the status. The query that M-VERIFY is about is
the last one that was executed before, or, if there was none, the one that the memory was asked with.

Where the released code departs from the article, this does not follow it: a missing verdict earns 0, a verdict belongs
to the call before it (`serl.agent.calls`), outcomes are the sandbox's, and F1 is of multisets of items, from trees that
know joins and CTEs (`serl.sql.clauses`).
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from serl.agent.calls import Call
from serl.agent.dialects import Check
from serl.evaluate.metrics.em import exact_match
from serl.reward.facts import Facts
from serl.reward.process import Earned, Process
from serl.sql.outcome import Outcome, Status


def ex(facts: Facts) -> float:
    return float(facts.correct)


def em(facts: Facts) -> float:
    sql = facts.trajectory.final_sql
    return 0.0 if sql is None else exact_match(facts.example, sql).score or 0.0


@Process
def clauses(facts: Facts) -> list[Earned]:
    return [Earned(call.turn, _f1(facts, call.text)) for call in _queries(facts)]


@Process
def exec_verify(facts: Facts) -> list[Earned]:
    return [Earned(call.judged, 0.0 if call.verdict is None else _of_execution(facts, call.outcome, call.verdict))
            for call in _queries(facts)]


@Process
def memory_verify(facts: Facts) -> list[Earned]:
    earned, candidate = [], None
    for call in facts.calls:
        if call.check is Check.EXECUTION:
            candidate = call.text
            continue
        f1 = _f1(facts, call.text if candidate is None else candidate)
        earned.append(Earned(call.judged, 0.0 if call.verdict is None else f1 if call.verdict else 1.0 - f1))
    return earned


def _queries(facts: Facts) -> Iterator[Call]:
    return (call for call in facts.calls if call.check is Check.EXECUTION)


def _of_execution(facts: Facts, outcome: Outcome, passed: bool) -> float:
    """What a verdict on a query's answer earns."""
    if facts.options.verify_by == "result":
        return float(passed == facts.matches(outcome))
    if outcome.status is Status.EMPTY:
        return 0.0 if passed else facts.options.verify_empty
    return float(passed == (outcome.status is Status.OK))


def _f1(facts: Facts, sql: str) -> float:
    return _clause_f1(sql, facts.example.gold_sql, facts.example.db_path)


@lru_cache(maxsize=4096)
def _clause_f1(sql: str, gold: str, db_path: Path) -> float:
    """0, too, where gold cannot be read: then it is 0 for the whole group."""
    from serl.sql.clauses import clause_f1
    from serl.sql.tree.schema import schema_of

    return clause_f1(sql, gold, schema_of(db_path)).value or 0.0
