"""Answers as Markdown: what a model or a database says stays text."""

from serl.serve.markdown import escaped, fenced, rows_text
from serl.sql.outcome import Outcome, Status


def test_nothing_closes_a_fence():
    assert fenced("SELECT 1", "sql") == "```sql\nSELECT 1\n```"
    assert fenced("SELECT '\n````\n'", "sql") == "`````sql\nSELECT '\n````\n'\n`````"


def test_cells_are_text_of_one_line():
    assert escaped("a|b\n# c") == r"a\|b \# c" and escaped(None) == "NULL" and escaped(b"ab") == r"\<2 bytes\>"
    assert escaped("![x](http://evil)") == r"\!\[x\](http://evil)" and escaped(0.5) == "0.5"
    assert escaped("\\|") == r"\\\|", "an escape cannot be escaped away"


def test_rows_are_a_table_with_their_number():
    outcome = Outcome(Status.OK, ("n", "a|b"), ((1, "x"), (2, None)), 7)
    assert rows_text(outcome, 1) == "| n | a\\|b |\n| --- | --- |\n| 1 | x |\n\n7 rows, the first 1 of them here"
    assert rows_text(Outcome(Status.EMPTY, ("n",), (), 0), 5) == "0 rows"
