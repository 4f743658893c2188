"""Fixtures that several packages' tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from serl.data.minibird import generate

# A busy machine makes single examples slow; what takes too long is for the tests' own limit to say.
settings.register_profile("serl", deadline=None)
settings.load_profile("serl")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real benchmark data; tests that need it are skipped where it is absent."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SERL_SHARED_DATA") or beside_checkout)
    if not folder.is_dir():
        pytest.skip(f"no real benchmark data in {folder}; set SERL_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def minibird(tmp_path_factory) -> Path:
    """A small generated benchmark."""
    root = tmp_path_factory.mktemp("minibird")
    generate(root, seed=3, train=48, dev=12, unseen=8)
    return root
