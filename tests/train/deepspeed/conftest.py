"""Two processes for all tests here: an interpreter with DeepSpeed takes seconds to start."""

from importlib.util import find_spec

import pytest

from tests.train.deepspeed.pair import opened


@pytest.fixture(scope="session")
def run():
    if find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is not installed; `make engines` does it")
    with opened(60.0) as work:
        yield work
