"""Value indices: what they hold, and that a stale or damaged one never answers."""

import json
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from grounding import io
from grounding.grounded import GroundingConfig
from grounding.index import ValueIndex
from grounding.schema import Database
from grounding.text import trigrams


def open_index(path, cache, encoder=None, config=GroundingConfig()):
    return ValueIndex.open(Database.read(path), cache, encoder, config)


def test_the_exact_channel_folds_case_width_and_white_space(racing, tmp_path):
    index = open_index(racing, tmp_path / "cache")
    found = index.exact(["italian grand prix", "monaco", "nowhere"])
    assert set(found) == {"italian grand prix", "monaco"}
    ((_, cell),) = index.cells([found["italian grand prix"]])
    assert (cell.table, cell.column, cell.text, cell.count) == ("race", "name", "ITALIAN GRAND PRIX", 1)


def test_one_string_in_two_columns_is_stored_once_and_found_in_both(make_database, tmp_path):
    path = make_database("CREATE TABLE t (a TEXT, b TEXT); INSERT INTO t VALUES ('Oslo', 'OSLO'), ('Bonn', 'oslo');")
    index = open_index(path, tmp_path / "cache")
    assert index.manifest["counts"] == {"strings": 2, "cells": 4, "dense": 0}
    cells = index.cells([index.exact(["oslo"])["oslo"]])
    assert sorted((cell.column, cell.text) for _, cell in cells) == [("a", "Oslo"), ("b", "OSLO"), ("b", "oslo")]


def test_the_trigram_channel_finds_misspelt_values(racing, tmp_path):
    index = open_index(racing, tmp_path / "cache")
    assert index.trigram(trigrams("jensen button"))[0][1] == "jenson button"
    assert index.trigram(trigrams("\"'*")) == [] and index.trigram(trigrams("ab")) == []


def test_an_index_is_built_once(racing, tmp_path):
    folder = open_index(racing, tmp_path / "cache").folder
    before = (folder / "manifest.json").stat().st_mtime_ns
    assert open_index(racing, tmp_path / "cache").folder == folder
    assert (folder / "manifest.json").stat().st_mtime_ns == before


def test_a_changed_database_or_option_gets_another_index(racing, make_database, tmp_path):
    cache = tmp_path / "cache"
    folder = open_index(racing, cache).folder
    assert open_index(racing, cache, config=GroundingConfig(max_value_chars=5)).folder != folder
    make_database("INSERT INTO circuit VALUES (3, 'Suzuka', 'Japan');")
    assert "suzuka" in open_index(racing, cache).exact(["suzuka"])


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "no manifest", "garbled manifest", "other manifest"])
def test_a_damaged_index_is_built_again(racing, tmp_path, damage):
    cache = tmp_path / "cache"
    folder = open_index(racing, cache).folder
    values, manifest = folder / "values.sqlite", folder / "manifest.json"
    raw = values.read_bytes()
    if damage == "missing":
        values.unlink()
    elif damage == "cut":
        values.write_bytes(raw[: len(raw) // 2])
    elif damage == "flipped":
        values.write_bytes(raw.replace(b"jenson", b"jansen"))
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "garbled manifest":
        manifest.write_text("[")
    else:
        manifest.write_text(json.dumps({"identity": None, "files": {}}))
    rebuilt = open_index(racing, cache)
    assert rebuilt.folder == folder and "jenson button" in rebuilt.exact(["jenson button"])
    assert [path.name for path in cache.iterdir()] == [folder.name], "nothing is left behind"


def test_concurrent_builders_end_with_one_whole_index(racing, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        indices = list(pool.map(lambda _: open_index(racing, tmp_path / "cache"), range(8)))
    assert all("monaco" in index.exact(["monaco"]) for index in indices)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [indices[0].folder.name]


def test_a_folder_that_another_builder_moves_away_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    make, calls = os.mkdir, []

    def moved_away(path, mode=0o777):
        """As mkdir finds it the first time: there, and gone when somebody looks what it is."""
        calls.append(path)
        if len(calls) == 1:
            raise FileExistsError(path)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", moved_away)
    with io.exclusive(tmp_path / "staging"):
        assert (tmp_path / "staging" / io.LOCK).exists() and len(calls) == 2
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError), io.exclusive(tmp_path / "file"):
        pass


def test_numbers_stay_out_of_the_dense_channel(make_database, minilm, tmp_path):
    path = make_database(
        "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('1970'), ('France'), ('2020-01-01'), ('K-12'), ('+49 30 1');"
    )
    index = open_index(path, tmp_path / "cache", minilm)
    assert index.manifest["counts"] == {"strings": 5, "cells": 5, "dense": 2}
    _, ids = index.dense(minilm.encode(["French", "grades K to 12"]), k=1)
    assert [cell.text for _, cell in index.cells(ids[:, 0])] in (["France", "K-12"], ["K-12", "France"])
    assert "1970" in index.exact(["1970"])


def test_a_database_without_texts_has_an_empty_index(make_database, minilm, tmp_path):
    path = make_database("CREATE TABLE t (a BLOB); INSERT INTO t VALUES (x'00');")
    index = open_index(path, tmp_path / "cache", minilm)
    assert index.manifest["counts"] == {"strings": 0, "cells": 0, "dense": 0}
    assert index.trigram({"abc"}) == [] and index.exact(["a"]) == {}


def test_numbers_are_found_exactly_with_how_they_are_stored_and_not_by_likeness(make_database, tmp_path):
    path = make_database("CREATE TABLE t (a REAL, b TEXT); INSERT INTO t VALUES (1970.0, '1971'), (2.5, '1971');")
    index = open_index(path, tmp_path / "cache")
    found = index.exact(["1970", "2.5", "1971"])
    cells = {cell.text: cell.stored for _, cell in index.cells(list(found.values()))}
    assert cells == {"1970": "real", "2.5": "real", "1971": "text"}
    assert [folded for _, folded, _ in index.trigram(trigrams("1970"))] == ["1971"]
    without = open_index(path, tmp_path / "cache", config=GroundingConfig(numbers=False))
    assert set(without.exact(["1970", "2.5", "1971"])) == {"1971"}


def test_samples_are_a_columns_most_frequent_texts(make_database, tmp_path):
    path = make_database("CREATE TABLE t (a TEXT, b TEXT); INSERT INTO t VALUES ('X', 'y'), ('x', 'y'), ('x', 'z');")
    index = open_index(path, tmp_path / "cache")
    assert index.samples("t", "a", 3) == ("x", "X") and index.samples("t", "b", 1) == ("y",)
    assert index.samples("t", "c", 3) == ()


def test_the_manifest_says_of_each_column_what_is_indexed_and_why(racing, tmp_path):
    columns = open_index(racing, tmp_path / "cache").manifest["columns"]
    said = {(entry["table"], entry["column"]): entry for entry in columns}
    assert len(said) == 15  # every column of the four tables
    assert said["circuit", "id"]["why"] == "numbers: a surrogate key" and said["circuit", "id"]["indexed"] == 0
    assert said["race", "circuit_id"]["why"] == "numbers: they refer to a surrogate key"
    assert said["race", "laps"] == {
        "table": "race", "column": "laps", "cells": {"text": 0, "numbers": 2, "blobs": 0},
        "why": "numbers: few are distinct", "indexed": 2, "embeddable": 0,
    }  # fmt: skip
    assert (said["driver", "name"]["indexed"], said["driver", "name"]["embeddable"]) == (2, 2)


def test_the_cap_on_embedded_texts_leaves_the_others_to_the_lexical_channels(make_database, minilm, tmp_path):
    path = make_database("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('Oslo'), ('Bonn'), ('Bonn'), ('Bern');")
    index = open_index(path, tmp_path / "cache", minilm, GroundingConfig(max_embedded_per_column=1))
    assert index.manifest["counts"] == {"strings": 3, "cells": 3, "dense": 1}
    assert index.exact(["bonn"]) == {"bonn": 0}, "the most frequent text is the one that is embedded"
    assert set(index.exact(["oslo", "bern"]).values()) == {1, 2} and index.trigram(trigrams("oslo"))


def test_a_copied_index_is_hashed_and_used_but_one_that_changed_in_place_is_not(racing, tmp_path):
    folder = open_index(racing, tmp_path / "a").folder
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copy)  # times of change are not copied
    built = (tmp_path / "b" / folder.name / "manifest.json").stat().st_mtime_ns
    open_index(racing, tmp_path / "b")
    assert (tmp_path / "b" / folder.name / "manifest.json").stat().st_mtime_ns == built
    values = folder / "values.sqlite"
    stat, raw = values.stat(), values.read_bytes()
    values.write_bytes(raw.replace(b"jenson", b"jansen"))
    os.utime(values, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # what a rotting disk would leave
    assert "jenson button" not in open_index(racing, tmp_path / "a").exact(["jenson button"]), "size and time agree"
    verified = ValueIndex.open(Database.read(racing), tmp_path / "a", None, GroundingConfig(), verify=True)
    assert "jenson button" in verified.exact(["jenson button"])


def test_a_database_is_hashed_again_only_when_it_changed(racing, make_database, tmp_path, monkeypatch):
    hashed = []
    real = io.file_sha256
    monkeypatch.setattr(io, "file_sha256", lambda path: hashed.append(path.name) or real(path))
    monkeypatch.setattr(io, "SETTLED_S", 0.0)
    first = open_index(racing, tmp_path / "cache")
    assert hashed == ["racing.sqlite"]
    open_index(racing, tmp_path / "cache")
    assert hashed == ["racing.sqlite"]
    before = racing.stat()
    raw = racing.read_bytes()
    racing.write_bytes(raw.replace(b"Mexican", b"Spanish"))
    os.utime(racing, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, same time of change
    assert open_index(racing, tmp_path / "cache").folder != first.folder and len(hashed) == 2


def test_opened_and_dropped_indices_leave_no_file_open(racing, minilm, tmp_path):
    open_index(racing, tmp_path / "cache", minilm)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        index = open_index(racing, tmp_path / "cache", minilm)
        index.dense(minilm.encode(["Monaco"]), 1)
        del index
    assert len(os.listdir("/proc/self/fd")) == before
    index = open_index(racing, tmp_path / "cache")
    index.close()
    with pytest.raises(sqlite3.ProgrammingError):
        index.exact(["monaco"])
