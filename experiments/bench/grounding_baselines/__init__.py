"""Published ways to find the stored values that a question means, written plainly, for grounding's benchmark.

One algorithm a file; each states its paper and where it departs from it. A method builds a picklable index of one
database and searches it:

    index = method.build(database)
    method.search(index, question, evidence, k)     the k best (table, column, value), best first

All of them read the same cells (`cells.py`), and those that look up keywords take grounding's own mentions, so that
what is compared is the retrieval.
"""
