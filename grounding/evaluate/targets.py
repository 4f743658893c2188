"""Value targets of a data set: the stored values that its gold SQL compares columns with.

A literal after =, !=, IN or LIKE is looked up in its column as it is stored: white space at the ends and case aside.
A pattern counts where one stored value fits it; one that several fit names none of them. The kind of a target
says how the question (with its evidence) puts the value: see `kind_of`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from grounding.evaluate.gold import Comparison, UnresolvedSql, read_gold
from grounding.evaluate.questions import Question
from grounding.evaluate.value_task import Item, Target
from grounding.schema import Database
from grounding.sqlite import connect_readonly, quote
from grounding.text import fold, is_number_like, stem, words

MISSPELT = 0.75  # similarity, by Ratcliff and Obershelp, from which on words of the question are the value, misspelt


def value_items(
    questions: Iterable[Question], databases: dict[str, Database]
) -> tuple[list[Item], Counter]:
    """An item for each question with targets, and a count of what became of every question and comparison.

    `databases` holds each database by its id.
    """
    lookups = {db_id: _Stored(database) for db_id, database in databases.items()}
    items, fates = [], Counter()
    for question in questions:
        try:
            use = read_gold(question.gold_sql, databases[question.db_id])
        except UnresolvedSql:
            fates["question: gold cannot be resolved"] += 1
            continue
        targets: dict[tuple[str, str, str], Target] = {}
        for comparison in use.comparisons:
            stored = lookups[question.db_id].spellings(comparison)
            fate = "found" if stored else "pattern of several values or none" if comparison.operator == "like" else (
                "no such value stored")
            fates[f"comparison: {fate}"] += 1
            if stored:
                kind = kind_of(stored[0], comparison.literal, f"{question.question} {question.evidence}")
                key = (comparison.table, comparison.column, fold(stored[0]))
                targets.setdefault(key, Target(*key[:2], frozenset(stored), kind))
        fates["question: with targets" if targets else "question: without targets"] += 1
        if targets:
            items.append(Item(question.question, question.evidence, question.database, tuple(targets.values())))
    return items, fates


class _Stored:
    """Texts of a database's columns, read once a column."""

    def __init__(self, database: Database):
        self.database = database
        self._columns: dict[tuple[str, str], dict[str, list[str]]] = {}

    def spellings(self, comparison: Comparison) -> list[str]:
        """The stored spellings that a comparison means; several only where they differ in case or outer blanks."""
        place = (comparison.table, comparison.column)
        if place not in self._columns:
            self._columns[place] = self._read(*place)
        by_folded = self._columns[place]
        if comparison.operator != "like":
            return by_folded.get(fold(comparison.literal), [])
        pattern = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in comparison.literal),
                             re.IGNORECASE | re.DOTALL)
        fitting = [spellings for spellings in by_folded.values() if any(pattern.fullmatch(text) for text in spellings)]
        return fitting[0] if len(fitting) == 1 else []

    def _read(self, table: str, column: str) -> dict[str, list[str]]:
        name = quote(column)
        connection = connect_readonly(self.database.path)
        try:
            rows = connection.execute(
                f"SELECT CAST({name} AS TEXT) AS said, count(*) AS n FROM {quote(table)}"
                f" WHERE typeof({name}) IN ('text', 'integer', 'real') GROUP BY said ORDER BY n DESC").fetchall()
        finally:
            connection.close()
        by_folded: dict[str, list[str]] = defaultdict(list)
        for text, _ in rows:
            if text.strip():
                by_folded[fold(text)].append(text)
        return by_folded


def kind_of(value: str, literal: str, said: str) -> str:
    """How a question says a value: the first that holds of short<=2, number-like, verbatim, case-differs, morph/typo,
    synonym/abbr. The literal, without LIKE's signs, may be said instead of the whole value.

    >>> [kind_of(value, value, "two French cats from New york") for value in ("NY", "New York", "Cat", "France")]
    ['short<=2', 'case-differs', 'morph/typo', 'synonym/abbr']
    """
    forms = [" ".join(text.split()) for text in (value, literal.strip("%"))]
    if len(forms[0]) <= 2:
        return "short<=2"
    if is_number_like(forms[0]):
        return "number-like"
    said = " ".join(said.split())
    if any(_says(said, form) for form in forms):
        return "verbatim"
    if any(_says(fold(said), fold(form)) for form in forms):
        return "case-differs"
    return "morph/typo" if any(_says_nearly(fold(said), fold(form)) for form in forms) else "synonym/abbr"


def _says(text: str, form: str) -> bool:
    return bool(form) and re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) is not None


def _says_nearly(text: str, form: str) -> bool:
    """Whether as many words of the text, one less or one more, share their stems with the form or nearly spell it."""
    spoken, wanted = words(text), words(form)
    for size in range(max(1, len(wanted) - 1), len(wanted) + 2):
        for start in range(len(spoken) - size + 1):
            gram = spoken[start : start + size]
            same_stems = [stem(word) for word in gram] == [stem(word) for word in wanted]
            if same_stems or SequenceMatcher(None, " ".join(gram), form, False).ratio() >= MISSPELT:
                return True
    return False


def databases_of(questions: Sequence[Question]) -> dict[str, Database]:
    """The schema of every database that a question is about, by id."""
    paths = {question.db_id: question.database for question in questions}
    return {db_id: Database.read(path) for db_id, path in paths.items()}
