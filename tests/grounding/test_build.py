"""Building: in several processes, after a kill, and at a size where the dense index is a graph."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from grounding import Grounder, GroundingConfig, Request, dense
from grounding.cli import main
from grounding.corpus import build_all
from grounding.embed import CachedEncoder
from grounding.errors import InputError
from grounding.index import ValueIndex
from grounding.schema import Database
from tests.grounding.pairs import DIMENSION, Pairs

ROOT = Path(__file__).parents[2]
ONE_TEXT = "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('a text');"

@pytest.fixture
def many(make_database):
    """A database of 3,000 texts of five letters."""
    letters = "bcdfghjklmnpqrst"
    rows = ", ".join(f"('{''.join(letters[(i * 7919 >> 4 * k) % 16] for k in range(5))}')" for i in range(3000))
    return make_database(f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES {rows};", name="many")


@pytest.fixture
def small_graph(monkeypatch):
    """Graphs from 500 vectors on, in windows of 256."""
    for name, value in (("FLAT_VECTORS", 500), ("WINDOW", 256), ("TRAINED_ON", 512), ("SAVE_EVERY", 512)):
        monkeypatch.setattr(dense, name, value)


def open_index(path, cache, encoder):
    return ValueIndex.open(Database.read(path), cache, CachedEncoder(encoder, cache / "vectors"), GroundingConfig())


def nearest_by_hand(index, encoder, queries, k):
    count = index.manifest["counts"]["dense"]
    texts = {number: cell.text for number, cell in index.cells(range(count))}
    vectors = encoder.encode([texts[number] for number in range(count)])
    return np.argsort(-(queries @ vectors.T), axis=1)[:, :k]


def test_a_graph_finds_what_the_manifest_says_it_finds(many, tmp_path, small_graph):
    index = open_index(many, tmp_path, Pairs())
    about = index.manifest["dense"]
    assert about["kind"] == "HNSW, 8 bit" and about["target_reached"] and about["vectors"] == 3000
    assert about["measured"][-1]["recall@10"] >= 0.98 and about["measured"][-1]["efSearch"] == about["efSearch"]
    assert all(step["recall@10"] < 0.98 for step in about["measured"][:-1])
    encoder = Pairs()
    queries = encoder.encode(["bcdfg", "ttttt", "qrstb", "hjk", "lmnpq"])
    found = index.dense(queries, 10)[1]
    exact = nearest_by_hand(index, encoder, queries, 10)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact)]) >= 0.9


def test_a_flat_index_is_exact(many, tmp_path):
    encoder = Pairs()
    index = open_index(many, tmp_path, encoder)
    assert index.manifest["dense"] == {"kind": "flat, float16", "vectors": 3000, "dimension": DIMENSION}
    queries = encoder.encode(["bcdfg", "ttttt", "qrstb"])
    cosines, found = index.dense(queries, 5)
    texts = dict((number, cell.text) for number, cell in index.cells(found.ravel()))
    for query, row, given in zip(queries, found, cosines):
        assert np.allclose(given, encoder.encode([texts[number] for number in row]) @ query, atol=2e-3)  # float16
    assert (found[:, 0] == nearest_by_hand(index, encoder, queries, 1)[:, 0]).all()


def test_a_stopped_build_goes_on_with_its_graph_and_its_vectors(many, tmp_path, small_graph):
    class Stopped(Pairs):
        def encode(self, texts):
            if len(self.asked) > 2200:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        open_index(many, tmp_path, Stopped())
    (staging,) = tmp_path.glob(".building-*")
    values = (staging / "values.sqlite").stat().st_ino
    assert (staging / "dense.growing").exists()
    encoder = Pairs()
    index = open_index(many, tmp_path, encoder)
    assert 0 < len(encoder.asked) < 1000, "what was embedded before is not embedded again"
    assert (index.folder / "values.sqlite").stat().st_ino == values
    assert index.manifest["dense"]["target_reached"] and index.manifest["counts"]["dense"] == 3000
    assert sorted(file.name for file in index.folder.iterdir()) == ["dense.faiss", "manifest.json", "values.sqlite"]


def test_vectors_that_do_not_fit_the_disk_are_an_error_of_the_disk(many, tmp_path, monkeypatch):
    def full(*_):
        raise RuntimeError("Error in void fwrite(...)\nat io.cpp: No space left on device")

    monkeypatch.setattr("faiss.write_index", full)
    with pytest.raises(InputError, match="No space left"):
        open_index(many, tmp_path, Pairs())
    assert not list(tmp_path.glob(".building-*"))


@pytest.mark.slow
def test_a_killed_build_goes_on_where_it_was(many, tmp_path):
    script = (
        "from pathlib import Path; from grounding import Grounder, embed; from tests.grounding.pairs import Pairs\n"
        "embed.CHUNK = 64\n"
        f"Grounder(Path({str(tmp_path)!r}), Pairs(seconds=0.1)).open(Path({str(many)!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    store = tmp_path / "vectors" / "pairs-1.sqlite"

    def kept():
        if not store.exists():
            return 0
        with sqlite3.connect(store) as connection:
            return connection.execute("SELECT count(*) FROM unit_vector").fetchone()[0]

    deadline = time.monotonic() + 120
    while kept() < 300 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = kept()
    assert 300 <= before < 3000
    encoder = Pairs()
    grounder = Grounder(tmp_path, encoder)
    _, index = grounder.open(many)
    assert len(encoder.asked) == len(set(encoder.asked)) == 3000 - before + 1  # and the column's name
    assert index.manifest["counts"] == {"strings": 3000, "cells": 3000, "dense": 3000}
    assert not list(tmp_path.glob(".building-*"))
    assert grounder.ground(Request("'bcdfg'", many)).tables


def test_several_processes_build_what_one_builds(make_database, tmp_path, capsys):
    paths = [make_database(ONE_TEXT, name=f"d{i}") for i in range(4)]
    (tmp_path / "bad.sqlite").write_text("no database")
    command = ["build", "--root", str(tmp_path), "--encoder", "none", "--workers", "2"]
    code = main([*command, "--cache", str(tmp_path / "two")])
    err = capsys.readouterr().err
    assert code == 1 and "bad.sqlite" in err and "4 databases" in err
    one = build_all(paths, tmp_path / "one", "none", GroundingConfig(), workers=1)
    again = build_all(paths, tmp_path / "two", "none", GroundingConfig(), workers=2)
    assert [result.path for result in again] == paths
    assert [result.counts["strings"] for result in again] == [result.counts["strings"] for result in one] == [1] * 4


def test_an_evicted_index_closes_its_files(make_database, tmp_path, monkeypatch):
    monkeypatch.setattr("grounding.grounder.OPEN_DATABASES", 2)
    paths = [make_database(ONE_TEXT, name=f"d{i}") for i in range(6)]
    grounder = Grounder(tmp_path / "cache", "none")
    for path in paths:
        grounder.open(path)
    descriptors = [file for file in Path("/proc/self/fd").iterdir() if file.exists()]
    assert len([file for file in descriptors if (tmp_path / "cache") in file.resolve().parents]) == 2
