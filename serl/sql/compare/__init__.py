"""Comparators: does a prediction's result equal gold's? One file each; all return a Verdict with its reason.

    bird_ex   the official rule of BIRD: equal sets of rows
    spider_ex the official rule of Spider: it also prepares the two texts, and so runs them itself
    strict    equal multisets of rows, column count and (where asked for) order respected, floats within 1e-6

`similarity` is no comparator: it says in [0, 1] how much of gold's result a prediction has.
"""

from serl.sql.compare.bird import bird_ex
from serl.sql.compare.multiset import strict
from serl.sql.compare.order import is_ordered
from serl.sql.compare.similarity import similarity
from serl.sql.compare.spider import spider_ex
from serl.sql.compare.verdict import Verdict

__all__ = ["Verdict", "bird_ex", "is_ordered", "similarity", "spider_ex", "strict"]
