"""Partial credit for a result, in the manner of Think2SQL (arXiv 2504.15077), from the benchmark QATCH's measures.

With P and G the multisets of the cells of the prediction's and gold's results, of p and g rows:

    cell_precision   |P ∩ G| / |P|
    cell_recall      |P ∩ G| / |G|
    cardinality      min(p, g) / max(p, g)

Each is in [0, 1], and 0 where the form is bad, the query does not run, or one result alone is empty. Where both are
empty they are 1 if these have as many columns, else 0. The preset adds a third of each: a correct result has 1.
Neither the places of cells nor the order of rows count, so that some wrong results have 1, too.

Ours are multisets, so that a cell repeated pays no more than gold has it; cells are equal as for `similarity` of
`serl.sql.compare`. The article's weights and its rewards for form are not copied: here a bad form earns nothing.
"""

from collections import Counter
from collections.abc import Callable

from serl.reward.facts import Facts
from serl.sql.compare.similarity import unified


def cell_precision(facts: Facts) -> float:
    return _share(facts, lambda pred, gold: (pred & gold).total() / pred.total())


def cell_recall(facts: Facts) -> float:
    return _share(facts, lambda pred, gold: (pred & gold).total() / gold.total())


def cardinality(facts: Facts) -> float:
    """Of the numbers of rows."""
    if not facts.well_formed or not facts.ran:
        return 0.0
    low, high = sorted((len(facts.outcome.rows), len(facts.gold.rows)))
    return low / high if high else float(facts.correct)


def _share(facts: Facts, of: Callable[[Counter, Counter], float]) -> float:
    if not facts.well_formed or not facts.ran:
        return 0.0
    pred, gold = (Counter(cell for row in rows for cell in row)
                  for rows in unified(facts.outcome.rows, facts.gold.rows))
    if not pred and not gold:
        return float(facts.correct)
    return of(pred, gold) if pred and gold else 0.0
