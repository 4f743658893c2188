"""`em`: Spider's exact match by clauses."""

from __future__ import annotations

from serl.data.example import Example
from serl.errors import InputError
from serl.evaluate.exact_match import differing_clauses
from serl.evaluate.judged import Judged, Score
from serl.evaluate.spider.parser import NotInSubset, parse
from serl.evaluate.spider.schema import read_schema
from serl.sql.compare.spider_text import prediction_text


def em(judged: Judged, compat: bool = False) -> Score:
    """See `exact_match`."""
    return exact_match(judged.example, judged.predicted_sql, compat)


def exact_match(example: Example, predicted_sql: str, compat: bool = False) -> Score:
    """1 if no clause differs. InputError without tables.json; no score where gold itself cannot be read.

    `compat` copies a fault of the official script: "value" in a prediction is read as "1" (see `prediction_text`).
    """
    if example.tables_path is None:
        raise InputError("em needs the foreign keys in tables.json, which is not beside the questions")
    schema = read_schema(example.db_path, example.tables_path, example.db_id)
    try:
        gold = parse(example.gold_sql, schema)
    except NotInSubset as error:
        return Score(None, f"gold is not in Spider's subset of SQL: {error}")
    try:
        pred = parse(prediction_text(predicted_sql) if compat else predicted_sql, schema)
    except NotInSubset as error:
        return Score(0.0, f"not in Spider's subset of SQL: {error}")
    differing = differing_clauses(pred, gold, schema)
    return Score(0.0, f"differs in {', '.join(differing)}") if differing else Score(1.0, "same clauses")
