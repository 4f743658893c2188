"""How candidates use what grounding found for their question: S' and the value index, never gold.

    columns with evidence     those of S' that the question names, describes, or says a value of
    V_q                       the stored values that the question means
    the value index           which text stands in which column
    numbers                   as the question and its evidence write them; 0 and 1 say nothing (LIMIT 1, flags)

SQL is read by the reader that also resolves gold for grounding's evaluation. What it cannot resolve has no `Use`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from grounding import GroundedSchema, Grounder, Request
from grounding.evaluate.gold import Comparison, UnresolvedSql
from grounding.evaluate.gold import read_gold as read_sql
from grounding.index import ValueIndex
from grounding.sqlite import fold_name
from grounding.text import fold
from serl.select.candidate import Use

_NUMBER = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w|\.\d)")

def uses(grounder: Grounder, requests: Sequence[Request], sqls: Sequence[Iterable[str]]) -> list[dict[str, Use | None]]:
    """For each question, the use that each of its SQL texts makes of what grounding finds for it."""
    found = []
    for request, grounded, texts in zip(requests, grounder.ground_many(requests), sqls, strict=True):
        _, index = grounder.open(request.db_path, request.description_dir, request.tables_json)
        asked = f"{request.question} {request.evidence}"
        found.append({sql: use_of(sql, asked, grounded, index) for sql in dict.fromkeys(texts)})
    return found


def use_of(sql: str, asked: str, grounded: GroundedSchema, index: ValueIndex) -> Use | None:
    """What one SQL text uses of what was found for a question, `asked` with its evidence; None: it cannot be told."""
    try:
        read = read_sql(sql, grounded.database)
    except UnresolvedSql:
        return None
    linked = {(fold_name(table.name), fold_name(column.name))
              for table in grounded.tables for column in table.columns if column.has_evidence}
    values = {(fold_name(match.table), fold_name(match.column), fold(match.value)) for match in grounded.values}
    literals = {(each.table, each.column, _text(each)) for each in read.comparisons}
    written, spoken = numbers(sql), numbers(asked)
    return Use(columns=len(read.columns), linked=len(read.columns & linked), missed=len(linked - read.columns),
               literals=len(literals), stored=len(literals & _stored(index, literals)),
               values=len(values), said=len(values & literals),
               numbers=len(written), unsaid_numbers=len(written - spoken), missed_numbers=len(spoken - written))


def numbers(text: str) -> set[float]:
    """The numbers that stand in a text by themselves, in SQL or in a sentence, 0 and 1 apart.

    >>> sorted(numbers("SELECT t1.a FROM t1 WHERE b > 2.50 AND c = '2012' LIMIT 1")), numbers("over 1,200 km")
    ([2.5, 2012.0], {1200.0})
    """
    found = {float(number.replace(",", "")) for number in _NUMBER.findall(text)}
    return found - {0.0, 1.0}


def _text(comparison: Comparison) -> str:
    """The folded text that is compared with; of a pattern what stands between its outer `%`."""
    return fold(comparison.literal.strip("%") if comparison.operator == "like" else comparison.literal)


def _stored(index: ValueIndex, literals: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Every place (table, column) in which the index has the texts of these literals."""
    ids = index.exact([text for _, _, text in literals])
    return {(fold_name(cell.table), fold_name(cell.column), cell.folded)
            for _, cell in index.cells(sorted(set(ids.values())))}
