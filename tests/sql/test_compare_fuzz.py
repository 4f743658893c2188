"""Differential fuzzing of the comparators: each against itself, what it ignores and what it does not, and an oracle.

COMPARATORS says of each what it ignores. Every change in CHANGES that a comparator does not ignore must turn a match
into a mismatch, on every generated result where the change changes something.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from serl.sql.compare import bird_ex, strict
from serl.sql.compare.matching import rows_close
from serl.sql.compare.similarity import similarity
from serl.sql.compare.spider import same_result
from serl.sql.outcome import Outcome, Status


@dataclass(frozen=True)
class Comparator:
    """`matches(pred, gold, ordered)`; `ordered`: gold asks for an order of rows."""

    matches: Callable[[Outcome, Outcome, bool], bool]
    ignores: frozenset[str]


COMPARATORS = {
    "bird_ex": Comparator(
        lambda pred, gold, ordered: bird_ex(pred, gold).match,
        frozenset({"names", "integers as floats", "row order", "row order under ORDER BY", "row repeated"}),
    ),
    "strict": Comparator(
        lambda pred, gold, ordered: strict(pred, gold, ordered).match,
        frozenset({"names", "integers as floats", "row order", "float noise"}),
    ),
    "spider_ex": Comparator(
        lambda pred, gold, ordered: same_result(pred, gold, ordered).match,
        frozenset({"names", "integers as floats", "row order", "column order"}),
    ),
    "similarity": Comparator(
        lambda pred, gold, ordered: similarity(pred, gold) == 1.0,
        frozenset({"names", "integers as floats", "row order", "row order under ORDER BY", "float noise"}),
    ),
}

# A change takes a result, its rows all different, and a random source to another result.
Change = Callable[[Outcome, random.Random], Outcome]


def result(rows: list[tuple], columns: int) -> Outcome:
    return Outcome(Status.OK if rows else Status.EMPTY, tuple("abcdef"[:columns]), tuple(rows), len(rows))


def with_rows(outcome: Outcome, rows: list[tuple]) -> Outcome:
    return replace(outcome, rows=tuple(rows), row_count=len(rows), status=Status.OK if rows else Status.EMPTY)


def rename(outcome: Outcome, rng: random.Random) -> Outcome:
    return replace(outcome, columns=tuple(f"x{rng.randrange(99)}" for _ in outcome.columns))


def shuffle(outcome: Outcome, rng: random.Random) -> Outcome:
    return with_rows(outcome, rng.sample(outcome.rows, len(outcome.rows)))


def repeat_row(outcome: Outcome, rng: random.Random) -> Outcome:
    return with_rows(outcome, [*outcome.rows, rng.choice(outcome.rows)])


def drop_row(outcome: Outcome, rng: random.Random) -> Outcome:
    kept = list(outcome.rows)
    kept.pop(rng.randrange(len(kept)))
    return with_rows(outcome, kept)


def drop_column(outcome: Outcome, rng: random.Random) -> Outcome:
    assume(len(outcome.columns) > 1)
    at = rng.randrange(len(outcome.columns))
    narrower = replace(outcome, columns=outcome.columns[:at] + outcome.columns[at + 1 :])
    return with_rows(narrower, [row[:at] + row[at + 1 :] for row in outcome.rows])


def swap_columns(outcome: Outcome, rng: random.Random) -> Outcome:
    order = rng.sample(range(len(outcome.columns)), len(outcome.columns))
    return with_rows(outcome, [tuple(row[i] for i in order) for row in outcome.rows])


def change_cell(outcome: Outcome, rng: random.Random) -> Outcome:
    i, j = rng.randrange(len(outcome.rows)), rng.randrange(len(outcome.columns))
    rows = [list(row) for row in outcome.rows]
    rows[i][j] = rng.choice([other for other in POOL if other != rows[i][j]])
    return with_rows(outcome, [tuple(row) for row in rows])


def add_noise(outcome: Outcome, rng: random.Random) -> Outcome:
    def noisy(cell: Any) -> Any:
        return cell * (1 + rng.uniform(-1e-9, 1e-9)) if isinstance(cell, float) else cell

    return with_rows(outcome, [tuple(map(noisy, row)) for row in outcome.rows])


def as_floats(outcome: Outcome, rng: random.Random) -> Outcome:
    rows = [tuple(float(cell) if isinstance(cell, int) else cell for cell in row) for row in outcome.rows]
    return with_rows(outcome, rows)


CHANGES: dict[str, tuple[Change, bool]] = {  # the change, and whether gold asks for an order
    "names": (rename, False),
    "row order": (shuffle, False),
    "row order under ORDER BY": (shuffle, True),
    "row repeated": (repeat_row, False),
    "row lost": (drop_row, False),
    "column lost": (drop_column, False),
    "column order": (swap_columns, False),
    "cell changed": (change_cell, False),
    "float noise": (add_noise, False),
    "integers as floats": (as_floats, False),
}

# Far apart for any tolerance, and few, so that columns and rows share values.
POOL = (None, 0, 1, 2, 1_000_000, 1_000_001, 0.5, -3.75, 2.5e10, "", "a", "b", "1", b"a")
DERANDOMIZED = settings(derandomize=True, max_examples=40, database=None)


@st.composite
def results(draw: st.DrawFn, unique: bool = True) -> Outcome:
    columns = draw(st.integers(1, 3))
    row = st.tuples(*[st.sampled_from(POOL)] * columns)
    return result(draw(st.lists(row, min_size=1, max_size=5, unique=unique)), columns)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Outcome, Outcome]:
    """Two results from so few values that they are often equal, or nearly."""
    columns = draw(st.integers(1, 2))
    row = st.tuples(*[st.sampled_from([0, 1, 1.0, "a", None])] * columns)
    rows = st.lists(row, max_size=3)
    left = draw(rows)
    right = draw(st.one_of(rows, st.permutations(left).map(list)))
    return result(left, columns), result(right, columns)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", COMPARATORS)
@DERANDOMIZED
@given(gold=results(), seed=st.integers(0, 2**16))
def test_a_change_is_seen_unless_it_is_ignored(name: str, change: str, gold: Outcome, seed: int) -> None:
    make, ordered = CHANGES[change]
    comparator = COMPARATORS[name]
    pred = make(gold, random.Random(seed))
    if change in comparator.ignores:
        assert comparator.matches(pred, gold, ordered)
        assert comparator.matches(gold, pred, ordered)
    else:
        assume(is_changed(pred, gold, ordered))
        assert not comparator.matches(pred, gold, ordered)
        assert not comparator.matches(gold, pred, ordered)


def is_changed(pred: Outcome, gold: Outcome, ordered: bool) -> bool:
    """Whether the change did anything: a shuffle may put every row back in its place."""
    if ordered:
        return pred.rows != gold.rows
    return len(pred.columns) != len(gold.columns) or Counter(pred.rows) != Counter(gold.rows)


@pytest.mark.parametrize("name", COMPARATORS)
@DERANDOMIZED
@given(gold=results(unique=False), ordered=st.booleans())
def test_every_result_matches_itself(name: str, gold: Outcome, ordered: bool) -> None:
    assert COMPARATORS[name].matches(gold, gold, ordered)


@pytest.mark.parametrize("name", COMPARATORS)
@DERANDOMIZED
@given(pair=pairs(), ordered=st.booleans())
def test_a_match_is_a_match_the_other_way_round(name: str, pair: tuple, ordered: bool) -> None:
    left, right = pair
    assert COMPARATORS[name].matches(left, right, ordered) is COMPARATORS[name].matches(right, left, ordered)


@DERANDOMIZED
@given(pair=pairs())
def test_a_strict_match_is_a_match_of_every_comparator(pair: tuple) -> None:
    left, right = pair
    if strict(left, right, ordered=True).match:
        assert all(comparator.matches(left, right, True) for comparator in COMPARATORS.values())


# A tolerance apart or a little less, so that near-ties and chains of them are common.
NEAR = st.sampled_from([1, 1.0, 1 + 0.7e-6, 1 + 1.4e-6, 1 + 2.1e-6, 1_000_000, 1_000_001, 1_000_000.5, None])


@settings(DERANDOMIZED, max_examples=200)
@given(left=st.lists(st.tuples(NEAR, NEAR), max_size=4), right=st.lists(st.tuples(NEAR, NEAR), max_size=4),
       rng=st.randoms(use_true_random=False))  # fmt: skip
def test_strict_is_some_pairing_of_close_rows(left: list, right: list, rng: random.Random) -> None:
    if rng.random() < 0.5:  # two independent draws hardly ever match; near copies often do
        right = [tuple(rng.choice([c, c]) if c is None else nudged(c, rng) for c in row) for row in left]
        rng.shuffle(right)
    some_pairing = len(left) == len(right) and any(
        all(map(rows_close, left, order)) for order in itertools.permutations(right)
    )
    pred, gold = result(left, 2), result(right, 2)
    assert strict(pred, gold, ordered=False).match is some_pairing
    in_order = len(left) == len(right) and all(map(rows_close, left, right))
    assert strict(pred, gold, ordered=True).match is in_order
    assert (similarity(pred, gold) == 1.0) is some_pairing


def nudged(number: Any, rng: random.Random) -> Any:
    return rng.choice([number, number * (1 + 0.7e-6), number * (1 - 0.7e-6)])
