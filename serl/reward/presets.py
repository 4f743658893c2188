"""The table of presets: the terms of each system, by the name they are logged under, with their weights."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from serl.reward.facts import Facts
from serl.reward.terms import arctic, mtsql_r1, reasoning_sql, serl, skyrl_sql, sql_r1, think2sql

Term = Callable[[Facts], float]


class Weighted(NamedTuple):
    """A term, and its weight in the total."""

    term: Term
    weight: float = 1.0


PRESETS: Mapping[str, Mapping[str, Weighted]] = {
    "serl": {"execution": Weighted(serl.execution)},
    "sql_r1": {"format": Weighted(sql_r1.form), "execution": Weighted(sql_r1.execution),
               "result": Weighted(sql_r1.result), "length": Weighted(sql_r1.length)},
    "mtsql_r1": {"ex": Weighted(mtsql_r1.ex), "em": Weighted(mtsql_r1.em), "clauses": Weighted(mtsql_r1.clauses, 0.8),
                 "exec_verify": Weighted(mtsql_r1.exec_verify, 0.1),
                 "memory_verify": Weighted(mtsql_r1.memory_verify, 0.1)},
    "mtsql_outcome": {"ex": Weighted(mtsql_r1.ex), "em": Weighted(mtsql_r1.em)},
    "skyrl_sql": {"outcome": Weighted(skyrl_sql.outcome)},
    "mars_sql": {"outcome": Weighted(skyrl_sql.outcome)},
    "arctic": {"execution": Weighted(arctic.execution)},
    "think2sql": {"cell_precision": Weighted(think2sql.cell_precision, 1 / 3),
                  "cell_recall": Weighted(think2sql.cell_recall, 1 / 3),
                  "cardinality": Weighted(think2sql.cardinality, 1 / 3)},
    "reasoning_sql": {"execution": Weighted(reasoning_sql.execution, 3.0), "syntax": Weighted(reasoning_sql.syntax),
                      "schema": Weighted(reasoning_sql.schema), "ngram": Weighted(reasoning_sql.ngram)},
    "none": {},  # for terms of one's own only
}
