"""`spider_ex`: Spider's execution accuracy, in the variants that its official script has flags for."""

from __future__ import annotations

from serl.evaluate.judged import Judged, Score
from serl.evaluate.metrics.metric import Metric
from serl.sql import compare
from serl.sql.compare.spider_text import prepare


def spider_ex_metric(keep_distinct: bool = False, plug_value: bool = False, compat: bool = False) -> Metric:
    """The metric with these flags of `serl.sql.compare.spider_ex`."""

    def score(judged: Judged) -> Score:
        verdict = compare.spider_ex(
            judged.predicted_sql, judged.example.gold_sql, judged.run,
            keep_distinct=keep_distinct, plug_value=plug_value, compat=compat,
        )  # fmt: skip
        return Score.of(verdict)

    return Metric(score, text=lambda sql: prepare(sql, keep_distinct, compat))
