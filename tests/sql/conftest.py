"""A small shop database, and sandboxes with small limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serl.sql.sandbox import Sandbox
from tests.sql.shops import HASTY, LIMITS, make_shop


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=LIMITS) as pool:
        yield pool


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    """For statements that are to run into the time limit."""
    with Sandbox(workers=2, limits=HASTY) as pool:
        yield pool


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop's database, alone in its folder."""
    path = tmp_path_factory.mktemp("shop") / "shop.sqlite"
    make_shop(path)
    return path
