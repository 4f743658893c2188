"""Properties of the tree difference over minibird's question kinds, and that every token has its exact place."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from serl.data.minibird.compose import compose
from serl.data.minibird.domains import SEEN
from serl.data.minibird.kinds import KINDS
from serl.data.minibird.world import World
from serl.hindsight.credit.difference import compare
from serl.hindsight.credit.difference.assign import best_pairs
from serl.sql.clauses import clause_f1
from serl.sql.tree.parse import Text, parse
from serl.sql.tree.part import Part
from serl.sql.tree.queries import Reader

# Words that hold a statement together and say nothing that could be wrong alone.
GLUE = {"SELECT", "FROM", "WHERE", "JOIN", "ON", "AND", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "CASE", "WHEN",
        "THEN", "ELSE", "END", "CAST", "AS", "NULL", "(", ")", ",", "."}
KIND_NAMES = [kind.name for _, kinds in KINDS.values() for kind in kinds]


@pytest.fixture(scope="module")
def golds() -> dict[str, list[tuple[str, dict]]]:
    """Two gold queries of each question kind, with their databases' schemas."""
    random, worlds = Random(5), [World(database, 5) for database in SEEN]
    found: dict[str, list[tuple[str, dict]]] = {}
    for difficulty, (_, kinds) in KINDS.items():
        for kind in kinds:
            found[kind.name] = []
            while len(found[kind.name]) < 2:
                world = random.choice(worlds)
                question = compose(world, kind, difficulty, random)
                if question is not None:
                    schema = {table.name: [column.name for column in table.columns] for table in world.database.tables}
                    found[kind.name].append((question.sql, schema))
    return found


def parts(part: Part):
    yield part
    for child in part.children:
        yield from parts(child)


def read(sql: str, schema: dict) -> tuple[Text, Part]:
    text = parse(sql, "predicted")
    assert isinstance(text, Text), text
    return text, Reader(text, schema, True).read()


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_every_leaf_and_every_word_has_its_exact_place(golds, kind: str) -> None:
    for sql, schema in golds[kind]:
        text, root = read(sql, schema)
        for node in text.tree.find_all(exp.Identifier, exp.Literal, exp.Star):
            word = text.words[text.token_of(node)]
            assert word.strip("\"'").replace("''", "'") == ("*" if isinstance(node, exp.Star) else node.this)
        owners: dict[int, list[Part]] = {}
        for part in parts(root):
            for token in (*part.own, *(part.ref.qualifier if part.ref else ())):
                owners.setdefault(token, []).append(part)
            if part.kind in ("call", "flag") and part.label:
                assert [text.upper[token] for token in part.own] == [part.label]
            if part.kind == "column":
                assert text.words[part.own[0]].strip('"').lower() == part.ref.written
                assert text.slice(part.lo, part.hi).endswith(text.words[part.own[0]])
        shared = {token for token, found in owners.items() if len(found) > 1}
        assert not shared or "BETWEEN" in sql, sql  # whose column and word belong to both of its comparisons
        unowned = [text.words[token] for token in range(len(text)) if token not in owners]
        assert set(unowned) <= GLUE, sql


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_query_does_not_differ_from_itself_nor_from_its_renamed_self(golds, kind: str) -> None:
    for sql, schema in golds[kind]:
        assert compare(sql, sql, schema).equal and compare(sql, sql).equal
        renamed = renamed_tables(sql)
        assert compare(renamed, sql, schema).equal and compare(sql, renamed, schema).equal
        assert clause_f1(renamed, sql, schema).value == clause_f1(sql, sql).value == 1


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_one_changed_token_is_exactly_what_is_wrong(golds, kind: str) -> None:
    for sql, schema in golds[kind]:
        for changed, span in one_token_changed(sql):
            found = compare(changed, sql, schema)
            assert found.wrong == (span,) and not found.missing, (changed, sql)
            assert clause_f1(changed, sql, schema).value < 1, (changed, sql)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_dropped_condition_is_one_missing_part(golds, kind: str) -> None:
    for sql, schema in golds[kind]:
        for shorter in without_one_condition(sql):
            found = compare(shorter, sql, schema)
            assert not found.wrong and len(found.missing) == len(found.insert_at) == 1, (shorter, sql)
            back = compare(sql, shorter, schema)
            assert len(back.wrong) == 1 and not back.missing


@settings(max_examples=40)
@given(seed=st.integers(0, 10**9))
def test_any_two_queries_have_a_difference_within_the_text_that_is_empty_both_ways_or_neither(golds, seed: int) -> None:
    random = Random(seed)
    pool = [gold for pair in golds.values() for gold in pair]
    (one, schema), (other, _) = random.choice(pool), random.choice(pool)
    there, back = compare(one, other, schema), compare(other, one, schema)
    assert there.equal == back.equal == (there.cost == 0)
    same = compare(one, other, schema, ordered_select=False).equal
    assert (clause_f1(one, other, schema).value == 1) == (clause_f1(other, one, schema).value == 1) == same
    assert all(0 <= start < end <= len(one) for start, end in there.wrong)
    assert all(end < start for (_, end), (start, _) in zip(there.wrong, there.wrong[1:]))
    assert list(there.insert_at) == sorted(set(there.insert_at)) and len(there.missing) == len(there.insert_at)


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=0, max_size=4))
def test_the_best_pairs_have_the_greatest_gain(gains: list[list[int]]) -> None:
    rows = range(len(gains))
    found = best_pairs(rows, range(3), lambda i, j: gains[i][j])
    assert len({i for i, _ in found}) == len({j for _, j in found}) == len(found)
    columns = [*range(3), *[None] * len(gains)]
    best = max(sum(gains[i][j] for i, j in zip(rows, order) if j is not None)
               for order in permutations(columns, len(gains)))
    assert sum(gains[i][j] for i, j in found) == best


def renamed_tables(sql: str) -> str:
    """Every table of the outermost FROM with an alias, and its qualifiers with it."""
    tree = parse(sql, "predicted").tree.copy()
    for select in tree.find_all(exp.Select):
        tables = [table for table in select.find_all(exp.Table) if table.parent_select is select]
        names = {table.name: f"T{number}" for number, table in enumerate(tables, start=1)}
        for table in tables:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(names[table.name])))
        for column in select.find_all(exp.Column):
            if column.parent_select is select and column.table:
                column.set("table", exp.to_identifier(names[column.table]))
    return tree.sql(dialect="sqlite")


def one_token_changed(sql: str):
    """The text with a column, literal, aggregate or operator replaced, and the replacement's span."""
    text = parse(sql, "predicted")
    swaps = {"MAX": "TOTAL", "MIN": "TOTAL", "SUM": "TOTAL", "AVG": "TOTAL", ">": "<", "<": ">", "DESC": "ASC",
             "INTERSECT": "EXCEPT", "EXCEPT": "INTERSECT"}
    changes = {token: swaps[word] for token, word in enumerate(text.upper) if word in swaps}
    for node in text.tree.find_all(exp.Identifier, exp.Literal):
        if isinstance(node, exp.Literal):
            changes[text.token_of(node)] = "'zz'" if node.is_string else "98765"
        elif isinstance(node.parent, exp.Column) and node.arg_key == "this":
            changes[text.token_of(node)] = "zz"
    for token, word in changes.items():
        start, end = text.span(token)
        yield sql[:start] + word + sql[end:], (start, start + len(word))


def without_one_condition(sql: str):
    tree = parse(sql, "predicted").tree
    for number, where in enumerate(tree.find_all(exp.Where)):
        conditions = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        for place in range(len(conditions)):
            copy = tree.copy()
            kept = [condition.copy() for index, condition in enumerate(conditions) if index != place]
            clause = list(copy.find_all(exp.Where))[number]
            if kept:
                clause.set("this", exp.and_(*kept))
            else:
                clause.parent.set("where", None)
            yield copy.sql(dialect="sqlite")
