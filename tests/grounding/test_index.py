"""Value indices: what they hold, and that a stale or damaged one never answers."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

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
    path = make_database("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1);")
    assert open_index(path, tmp_path / "cache", minilm).manifest["counts"] == {"strings": 0, "cells": 0, "dense": 0}
