"""The examples in the docstrings are tests."""

import doctest

import pytest

from grounding import link, mentions, render, safety, schema, sqlite, text


@pytest.mark.parametrize("module", [link, mentions, render, safety, schema, sqlite, text], ids=lambda m: m.__name__)
def test_docstring_examples_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
