"""The metrics of `serl score`, one line each; a metric is one function in a file of its own.

    bird_ex                    BIRD's execution accuracy: equal sets of rows
    spider_ex                  Spider's (test-suite evaluation on one database), with its default flags
    spider_ex_keep_distinct    the same with DISTINCT kept in both queries
    spider_ex_plug_value       the same with gold's literals tried in place of the prediction's
    spider_ex_compat           spider_ex with the faults of the official script
    em                         Spider's exact match by clauses
    em_compat                  the same with "value" in predictions read as "1", as the official script does
    strict                     equal multisets of rows, column count and order respected: what rewards are made of
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from serl.evaluate.metrics.bird_ex import bird_ex
from serl.evaluate.metrics.em import em
from serl.evaluate.metrics.metric import Metric
from serl.evaluate.metrics.spider_ex import spider_ex_metric
from serl.evaluate.metrics.strict import strict

__all__ = ["METRICS", "Metric"]

METRICS: Mapping[str, Metric] = {
    "bird_ex": Metric(bird_ex),
    "spider_ex": spider_ex_metric(),
    "spider_ex_keep_distinct": spider_ex_metric(keep_distinct=True),
    "spider_ex_plug_value": spider_ex_metric(plug_value=True),
    "spider_ex_compat": spider_ex_metric(compat=True),
    "em": Metric(em, executes=False),
    "em_compat": Metric(partial(em, compat=True), executes=False),
    "strict": Metric(strict),
}
