"""Partial terms in the manner of Reasoning-SQL (arXiv 2503.23157), all in [0, 1], and 0 where the form is bad.

    execution   1 if the result equals gold's                              weight 3
    syntax      1 if the query runs
    schema      |A ∩ B| / |A ∪ B|, A and B the tables and columns that the query and gold use
    ngram       |A ∩ B| / |A ∪ B|, A and B the bigrams of their tokens

With these weights, which are ours, the least for a correct result (4) is more than the most for a wrong one (3).
`schema` resolves names by the database: aliases and case do not count, a star is its table alone; it is 0 where a query
cannot be parsed. `ngram` goes by SQLite's tokens without comments, words in any case. The article's judgement by
another model is left out.
"""

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from serl.reward.facts import Facts
from serl.sql.statement import tokens


def execution(facts: Facts) -> float:
    return float(facts.well_formed and facts.correct)


def syntax(facts: Facts) -> float:
    return float(facts.well_formed and facts.ran)


def schema(facts: Facts) -> float:
    if not facts.well_formed:
        return 0.0
    path = facts.example.db_path
    return _jaccard(_used(facts.trajectory.final_sql, path), _used(facts.example.gold_sql, path))


def ngram(facts: Facts) -> float:
    if not facts.well_formed:
        return 0.0
    return _jaccard(_bigrams(facts.trajectory.final_sql), _bigrams(facts.example.gold_sql))


def _jaccard(some: frozenset, others: frozenset) -> float:
    return len(some & others) / len(some | others) if some or others else 0.0


@lru_cache(maxsize=4096)
def _used(sql: str, db_path: Path) -> frozenset:
    """The tables and columns that a query uses; none where that cannot be told."""
    from grounding.evaluate.gold import UnresolvedSql, read_gold

    try:
        use = read_gold(sql, _database(db_path))
    except UnresolvedSql:
        return frozenset()
    return use.tables | use.columns


@lru_cache(maxsize=256)
def _database(path: Path):
    from grounding.schema import Database

    return Database.read(path)


def _bigrams(sql: str) -> frozenset[tuple[str, str]]:
    """Pairs of neighbouring tokens; texts and quoted names are as they are written.

    >>> sorted(_bigrams("SELECT name -- all\\nFROM city"))
    [('FROM', 'CITY'), ('NAME', 'FROM'), ('SELECT', 'NAME')]
    """
    return frozenset(pairwise(token.group() if token.lastgroup == "quoted" else token.group().upper()
                              for token in tokens(sql)))
