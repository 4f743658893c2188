"""Caches that something happened to, and builds that were killed: what is answered is right, or one clear line."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from grounding import Grounder, Request, lexical
from grounding.embed import CachedEncoder
from tests.grounding.conftest import RACING
from tests.grounding.pairs import Pairs

ROOT = Path(__file__).parents[2]
QUESTION = "Which British driver was at the 'Monaco Grand Prix' in Italiy?"


def ask(path, cache):
    return json.dumps(Grounder(cache, Pairs()).ground(Request(QUESTION, path)).to_json())


@pytest.mark.parametrize(
    ("said", "changed"),
    [('"counts"', '"kounts"'), ('"strings": ', '"strings": 9'), ('"dense": 1', '"dense": 7'), ("Grand", "Brand"),
     ('"columns"', '"kolumns"'), ("}", "]"), ('"why"', '"wh\x00"')],
)  # fmt: skip
def test_a_manifest_of_which_any_word_has_changed_is_not_believed(make_database, tmp_path, said, changed):
    path = make_database(RACING + 'CREATE TABLE "Grand" (a);')
    want = ask(path, tmp_path / "cache")
    (manifest,) = (tmp_path / "cache").glob("racing-*/manifest.json")
    written = manifest.read_text()
    assert said in written
    manifest.write_text(written.replace(said, changed))
    assert ask(path, tmp_path / "cache") == want
    assert json.loads(manifest.read_text())["counts"] == json.loads(written)["counts"]


@pytest.mark.parametrize("file", ["values.sqlite", "dense.faiss", "manifest.json"])
def test_a_file_cut_anywhere_or_replaced_by_a_folder_is_made_anew(racing, tmp_path, file):
    want = ask(racing, tmp_path)
    (path,) = tmp_path.glob(f"racing-*/{file}")
    raw = path.read_bytes()
    for size in (0, 1, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        assert ask(racing, tmp_path) == want
    path.unlink()
    path.mkdir()
    assert ask(racing, tmp_path) == want and path.is_file()


def test_two_indices_in_each_others_place_are_made_anew(make_database, tmp_path):
    paths = [make_database(f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('{a} one');", a) for a in ("Oslo", "Bonn")]
    for path in paths:
        ask(path, tmp_path / "cache")
    oslo, bonn = sorted((tmp_path / "cache").glob("[OB]*"), reverse=True)
    os.rename(oslo, tmp_path / "x")
    os.rename(bonn, oslo)
    os.rename(tmp_path / "x", bonn)
    grounder = Grounder(tmp_path / "cache", Pairs())
    found = [grounder.open(path)[1].exact(["oslo one", "bonn one"]) for path in paths]
    assert found == [{"oslo one": 0}, {"bonn one": 0}]


@pytest.mark.parametrize("damage", [b"", b"\x00" * 128, b"\x00\x3c" * 64, b"\x00", b"\x00\x7e" * 64, "text"])
def test_a_vector_that_is_no_unit_vector_is_computed_anew_and_kept(tmp_path, damage):
    texts = [f"text {i}" for i in range(20)]
    want = CachedEncoder(Pairs(), tmp_path).encode(texts)
    with sqlite3.connect(tmp_path / "pairs-1.sqlite") as connection:
        connection.execute("UPDATE unit_vector SET float16 = ? WHERE id = 3", (damage,))
    connection.close()
    encoder = Pairs()
    assert np.array_equal(CachedEncoder(encoder, tmp_path).encode(texts), want) and len(encoder.asked) == 1
    again = Pairs()
    assert np.array_equal(CachedEncoder(again, tmp_path).encode(texts), want) and again.asked == []


@pytest.fixture
def read_only(monkeypatch):
    """From now on no file can be written through SQLite; permissions would not stop a superuser's tests."""
    connect = sqlite3.connect

    def opened(path, **options):
        if path == ":memory:" or options.get("uri"):
            return connect(path, **options)
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    return lambda: monkeypatch.setattr(sqlite3, "connect", opened)


def test_a_store_that_can_only_be_read_is_read_and_what_is_new_is_computed(tmp_path, read_only):
    old = CachedEncoder(Pairs(), tmp_path).encode(["old"])
    read_only()
    encoder = Pairs()
    cached = CachedEncoder(encoder, tmp_path)
    for _ in range(2):
        assert np.array_equal(cached.encode(["old", "new"])[:1], old)
    assert encoder.asked == ["new", "new"]


def test_a_store_that_a_full_disk_left_without_a_table_is_no_obstacle(tmp_path, read_only):
    (tmp_path / "pairs-1.sqlite").touch()
    read_only()
    assert CachedEncoder(Pairs(), tmp_path).encode(["a"]).shape == (1, 64)


def test_an_index_of_a_database_that_changed_meanwhile_is_used_once_and_never_for_the_old_state(
    racing, make_database, tmp_path, monkeypatch
):
    before, real = racing.read_bytes(), lexical.write_values

    def write(*arguments):
        make_database("UPDATE driver SET nationality = 'Welsh'")
        real(*arguments)

    monkeypatch.setattr(lexical, "write_values", write)
    _, index = Grounder(tmp_path / "cache", "none").open(racing)
    assert "welsh" in index.exact(["welsh", "british"])
    monkeypatch.undo()
    for content, stored in ((before, "british"), (racing.read_bytes(), "welsh")):
        racing.write_bytes(content)
        _, index = Grounder(tmp_path / "cache", "none").open(racing)
        assert list(index.exact(["welsh", "british"])) == [stored]


KILL = """
import os, signal, sys
from pathlib import Path
event, name, path, cache = sys.argv[1:]
from grounding import Grounder
def kill(happens, arguments):
    if happens == event and arguments and Path(str(arguments[0])).name.startswith(name):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
Grounder(Path(cache), "none").open(Path(path))
"""


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("sqlite3.connect", "values.partial"), ("os.rename", "texts.partial"), ("os.rename", "values.partial"),
        ("os.rename", ".manifest.json"), ("os.remove", "texts.sqlite"), ("os.remove", "columns.json"),
        ("os.rename", "racing-"), ("os.rename", ".building-racing-"), ("os.remove", "lock"),
    ],
)  # fmt: skip
def test_a_build_that_is_killed_at_any_step_is_gone_on_with(racing, tmp_path, event, name):
    if name == "racing-":  # a damaged index stands in the place
        _, index = Grounder(tmp_path / "cache", "none").open(racing)
        (index.folder / "values.sqlite").write_bytes(b"")
    command = [sys.executable, "-c", KILL, event, name, str(racing), str(tmp_path / "cache")]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    _, index = Grounder(tmp_path / "cache", "none").open(racing)
    assert "monaco grand prix" in index.exact(["monaco grand prix"])
    assert not list((tmp_path / "cache").glob(".building*")) and not (index.folder / "texts.sqlite").exists()


def test_no_statement_needs_more_variables_than_old_builds_of_sqlite_allow(racing, tmp_path, monkeypatch):
    connect = sqlite3.connect

    def limited(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    grounder = Grounder(tmp_path, Pairs())
    question = " ".join(f"word{i} Monaco" for i in range(700)) + " '" + "".join(map(chr, range(0x4E00, 0x5000))) + "'"
    assert grounder.ground(Request(question, racing)).values[0].value == "Monaco"
    _, index = grounder.open(racing)
    assert len(index.cells(list(range(2000)))) == index.manifest["counts"]["cells"]
