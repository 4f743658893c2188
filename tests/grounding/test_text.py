"""The examples in the docstrings are tests."""

import doctest

import pytest

from grounding import link, mentions, render, safety, schema, sqlite, text
from grounding.evaluate import gold, targets

MODULES = [gold, link, mentions, render, safety, schema, sqlite, targets, text]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstring_examples_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
