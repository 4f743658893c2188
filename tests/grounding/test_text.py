"""The examples in the docstrings are tests."""

import doctest

import pytest

from grounding import budget, descriptions, joins, mentions, read, safety, sqlite, tables_json, text
from grounding.evaluate import gold, targets
from grounding.infer import names
from grounding.reasoning import parse
from grounding.render import literals, shown

MODULES = [
    budget, descriptions, gold, joins, literals, mentions, names, parse, read, safety, shown, sqlite, tables_json,
    targets, text,
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstring_examples_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
