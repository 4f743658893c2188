"""The metrics of `serl score`, one line each; a metric is one function in a file of its own.

    bird_ex                    BIRD's execution accuracy: equal sets of rows
    spider_ex                  Spider's (test-suite evaluation on one database), with its default flags
    spider_ex_keep_distinct    the same with DISTINCT kept in both queries
    spider_ex_plug_value       the same with gold's literals tried in place of the prediction's
    spider_ex_compat           spider_ex with the faults of the official script
    em                         Spider's exact match by clauses
    em_compat                  the same with "value" in predictions read as "1", as the official script does
    strict                     equal multisets of rows, column count and order respected: what rewards are made of
    soft_f1                    BIRD's: cells found, rows paired by position
    soft_f1_order_free         the same with rows paired as well as can be
    ves, r_ves                 BIRD's efficiency scores, from timed runs: on an idle machine only
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from serl.evaluate.metrics.bird_ex import bird_ex
from serl.evaluate.metrics.em import em
from serl.evaluate.metrics.metric import Metric
from serl.evaluate.metrics.r_ves import r_ves
from serl.evaluate.metrics.soft_f1 import soft_f1
from serl.evaluate.metrics.soft_f1_order_free import soft_f1_order_free
from serl.evaluate.metrics.spider_ex import spider_ex_metric
from serl.evaluate.metrics.strict import strict
from serl.evaluate.metrics.ves import ves

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
    "soft_f1": Metric(soft_f1, graded=True),
    "soft_f1_order_free": Metric(soft_f1_order_free, graded=True),
    "ves": Metric(ves, alone=True, graded=True),
    "r_ves": Metric(r_ves, alone=True, graded=True),
}
