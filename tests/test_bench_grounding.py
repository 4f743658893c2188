"""The baselines of grounding's benchmark do what their papers say, and the benchmark reports what they found."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.bench.grounding_baselines import bm25
from experiments.bench.grounding_baselines.bm25_lcs import Bm25Lcs
from experiments.bench.grounding_baselines.cells import Strings, best, read_cells
from experiments.bench.grounding_baselines.dense import Dense
from experiments.bench.grounding_baselines.exact_trigram import ExactTrigram
from experiments.bench.grounding_baselines.minhash_lsh import MinHashLsh, kept_columns
from experiments.bench.grounding_baselines.porter import porter_stem

BENCH = Path(__file__).parents[1] / "experiments" / "bench" / "grounding.py"
SINGERS = """
CREATE TABLE singer (singer_id TEXT PRIMARY KEY, name TEXT, country TEXT, website TEXT, songs INTEGER);
CREATE TABLE stadium (name TEXT, country TEXT, history TEXT);
CREATE VIEW everyone AS SELECT name FROM singer;
INSERT INTO singer VALUES ('s1', 'Tina Roberts', 'France', 'tina.fr', 3),
    ('s2', 'Rose White', 'United States', 'r.us', 5),
    ('s3', 'Joe Sharp', 'France', 'joe.fr', 5), ('s4', 'Bo', NULL, '  ', 1);
INSERT INTO stadium VALUES ('Stark''s Park', 'Scotland', 'A ground whose long history nobody would ever ask for.'),
    ('Balmoor', 'France', 'Another ground with a history of many words and of few goals.');
"""


class LetterEncoder:
    """Unit vectors of how often each letter stands in a text."""

    name = "letters"

    def encode(self, texts):
        counts = np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz "] for text in texts])
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True).clip(1)).astype(np.float32)


@pytest.fixture
def singers(tmp_path) -> Path:
    path = tmp_path / "singers.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(SINGERS)
    connection.close()
    return path


def found_by(method, database: Path, question: str, k: int = 20, evidence: str = ""):
    return method.search(method.build(database), question, evidence, k)


# Cells

def test_cells_are_the_distinct_stored_texts_of_every_column_but_not_of_views(singers):
    cells = read_cells(singers)
    assert cells.found(range(len(cells))) == [
        ("singer", "singer_id", "s1"), ("singer", "singer_id", "s2"), ("singer", "singer_id", "s3"),
        ("singer", "singer_id", "s4"), ("singer", "name", "Tina Roberts"), ("singer", "name", "Rose White"),
        ("singer", "name", "Joe Sharp"), ("singer", "name", "Bo"), ("singer", "country", "France"),
        ("singer", "country", "United States"), ("singer", "website", "tina.fr"), ("singer", "website", "r.us"),
        ("singer", "website", "joe.fr"), ("stadium", "name", "Stark's Park"), ("stadium", "name", "Balmoor"),
        ("stadium", "country", "Scotland"), ("stadium", "country", "France"),
        ("stadium", "history", "A ground whose long history nobody would ever ask for."),
        ("stadium", "history", "Another ground with a history of many words and of few goals.")]


def test_a_string_knows_the_cells_that_hold_it(singers):
    cells = read_cells(singers)
    strings = Strings.of(cells, str.lower)
    france = strings.cells_of([strings.texts.index("france")])
    assert cells.found(france) == [("singer", "country", "France"), ("stadium", "country", "France")]
    assert sorted(strings.cells_of(range(len(strings.texts)))) == list(range(len(cells)))


def test_the_best_are_those_of_a_stable_sort():
    generator = np.random.default_rng(0)
    for size, k in [(1, 3), (7, 7), (50, 5), (200, 20)]:
        scores = generator.integers(0, 6, size).astype(float)
        assert best(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()
    assert best(np.zeros(0), 3).tolist() == []


# CHESS

def test_chess_leaves_out_keys_contact_columns_and_long_texts(singers):
    cells = read_cells(singers)
    kept = [column for column, is_kept in zip(cells.columns, kept_columns(cells)) if is_kept]
    assert [(column.table, column.column) for column in kept] == [
        ("singer", "name"), ("singer", "country"), ("stadium", "name"), ("stadium", "country")]


def test_chess_finds_a_misspelt_name_and_only_in_the_columns_it_keeps(singers):
    encoder = LetterEncoder()
    everything = found_by(MinHashLsh(encoder, filtered=False), singers, "Who is 'Tina Robert' of tina.fr?")
    assert everything[0] == ("singer", "website", "tina.fr") and ("singer", "name", "Tina Roberts") in everything
    filtered = found_by(MinHashLsh(encoder, filtered=True), singers, "Who is 'Tina Robert' of tina.fr?")
    assert filtered[0] == ("singer", "name", "Tina Roberts")
    assert all(column != "website" for _, column, _ in filtered)


def test_chess_keeps_one_value_of_a_column_for_a_keyword(tmp_path):
    path = tmp_path / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (city TEXT); INSERT INTO t VALUES ('Springfield'), ('Springfields');")
    connection.close()
    found = found_by(MinHashLsh(LetterEncoder(), filtered=True), path, "in Springfield")
    assert found == [("t", "city", "Springfield")]


# BM25 and CodeS

@pytest.mark.parametrize("pair", """
    caresses:caress ponies:poni cats:cat feed:feed agreed:agre plastered:plaster bled:bled motoring:motor sing:sing
    conflated:conflat troubled:troubl sized:size hopping:hop falling:fall hissing:hiss failing:fail filing:file
    happy:happi sky:sky relational:relat conditional:condit valenci:valenc digitizer:digit conformabli:conform
    vietnamization:vietnam operator:oper feudalism:feudal decisiveness:decis hopefulness:hope sensitiviti:sensit
    triplicate:triplic formative:form formalize:formal electriciti:electr goodness:good revival:reviv allowance:allow
    airliner:airlin adjustable:adjust replacement:replac adoption:adopt effective:effect probate:probat rate:rate
    cease:ceas controll:control roll:roll""".split())
def test_words_are_stemmed_as_porters_paper_shows(pair):
    word, stem = pair.split(":")
    assert porter_stem(word) == stem


def test_bm25_is_the_formula_worked_out_by_hand(tmp_path):
    path = tmp_path / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('red red wine'), ('red'), ('old port');")
    connection.close()
    index = bm25.Bm25().build(path)
    # 3 documents of 3, 1 and 2 words, 2 on average; red is in 2 of them (ln 1.6), wine in 1 (ln 8/3).
    red = [np.log(1.6) * 2 / (2 + 1.2 * (0.25 + 0.75 * 1.5)), np.log(1.6) / (1 + 1.2 * (0.25 + 0.75 * 0.5)), 0]
    wine = np.log(8 / 3) / (1 + 1.2 * (0.25 + 0.75 * 1.5))
    assert bm25.scores(index, "The Reds") == pytest.approx(red)
    assert bm25.scores(index, "red and red WINES") == pytest.approx([2 * red[0] + wine, 2 * red[1], 0])
    assert bm25.Bm25().search(index, "is it red?", "wine", 5) == [("t", "v", "red red wine"), ("t", "v", "red")]
    assert bm25.Bm25().search(index, "white", "", 5) == []


def test_codes_puts_the_value_that_the_question_holds_whole_before_the_rarer_word(tmp_path):
    path = tmp_path / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('blue suede blue suede'), ('blue moon'), ('blue note');")
    connection.close()
    question = "Who sang Blue Moon in suede?"
    assert found_by(bm25.Bm25(), path, question)[0] == ("t", "v", "blue suede blue suede")
    assert [value for _, _, value in found_by(Bm25Lcs(), path, question)] == [
        "blue moon", "blue note", "blue suede blue suede"]  # 9 of 9, 5 of 9 and 5 of 21 characters


# Dense, exact and trigram

def test_dense_ranks_by_the_closest_keyword(singers):
    found = found_by(Dense(LetterEncoder()), singers, "singers from France", k=3)
    assert found[:2] == [("singer", "country", "France"), ("stadium", "country", "France")] and len(found) == 3


def test_trigrams_rank_by_their_dice_coefficient(singers):
    method = ExactTrigram()
    index = method.build(singers)
    found = method.search(index, "Is Tina Robert from france?", "", 20)
    # The keyword "france" equals a value; "Tina Robert" shares all its 9 trigrams with the 10 of "tina roberts": 18/19.
    assert found[:3] == [("singer", "country", "France"), ("stadium", "country", "France"),
                         ("singer", "name", "Tina Roberts")]
    assert method.search(index, "zzzz", "", 20) == []


def test_a_short_text_is_found_by_its_equals_alone(singers):
    assert ("singer", "name", "Bo") in found_by(ExactTrigram(), singers, "What did bo sing?")
    assert ("singer", "name", "Bo") not in found_by(ExactTrigram(), singers, "What did Bob sing?")


@pytest.mark.parametrize("method", [MinHashLsh(LetterEncoder(), True), Bm25Lcs(), bm25.Bm25(), Dense(LetterEncoder()),
                                    ExactTrigram()], ids=lambda method: type(method).__name__)
def test_a_database_without_texts_and_a_question_without_keywords_have_no_values(method, tmp_path, singers):
    empty = tmp_path / "empty.sqlite"
    connection = sqlite3.connect(empty)
    connection.executescript("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1);")
    connection.close()
    assert found_by(method, empty, "singers from France") == []
    assert found_by(method, singers, "is it?") == []


# The benchmark

TASK = [
    {"question": "How old are the singers from France?", "evidence": "", "db": "singers.sqlite", "targets": [
        {"table": "singer", "column": "country", "value": "France", "accept": ["France"], "match_type": "verbatim"}]},
    {"question": "Which songs are Tina Robert's?", "db": "singers.sqlite", "targets": [
        {"table": "singer", "column": "name", "value": "Tina Roberts", "accept": ["Tina Roberts"],
         "match_type": "morph/typo"}]},
    {"question": "Who is an American?", "db": "singers.sqlite", "targets": [
        {"table": "singer", "column": "country", "value": "United States", "accept": ["United States"],
         "match_type": "synonym/abbr"}]},
]


@pytest.fixture
def task(singers, tmp_path) -> Path:
    path = tmp_path / "task.jsonl"
    path.write_text("\n".join(map(json.dumps, TASK)), encoding="utf-8")
    return path


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(BENCH), *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.slow
def test_methods_are_measured_on_a_made_task(task, tmp_path):
    arguments = ["--task", task, "--root", tmp_path, "--methods", "bm25,ours-lexical", "--rounds", 1, "--large", 19,
                 "--cache", tmp_path / "cache"]
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["values"] == {str(tmp_path / "singers.sqlite"): 19}
    assert report["groups"]["databases of 19 values or more"] == {"databases": 1, "questions": 3, "targets": 3}
    bm25_found = report["methods"]["bm25"]
    recalls = bm25_found["recall"]["all databases"]
    assert recalls["all"]["10"]["value"] == pytest.approx(2 / 3) and recalls["verbatim"]["1"]["value"] == 1
    assert recalls["synonym/abbr"]["20"] == {"value": 0.0, "low": 0.0, "high": 0.0, "targets": 1}
    built, query = bm25_found["build"], bm25_found["query"]
    assert built["values"] == 19 and built["values_per_cpu_s"] == pytest.approx(19 / built["cpu_s"])
    assert built["encoding_cpu_s"] == 0 and built["bytes_per_value"] == pytest.approx(built["bytes"] / 19)
    assert built["peak_mib"] > 10 and query["peak_mib"] > 10
    assert 0 < query["wall_ms"]["p50"] <= query["wall_ms"]["p95"] and query["encoding_ms"]["p95"] == 0
    assert 0 < query["load_ms"] < 60_000 and report["methods"]["ours-lexical"]["recall"]["all databases"]["verbatim"][
        "10"]["value"] == 1

    again = run(*arguments)
    assert again.returncode == 0 and "build bm25" in done.stderr and "build" not in again.stderr
    assert "recall in %, all databases: 1 databases, 3 questions, 3 targets" in again.stdout
    (row,) = [line for line in again.stdout.split("\n") if line.startswith("BM25  ") and f" {19:d} " in line]
    assert f"{built['bytes_per_value']:.0f}" in row.split()


def test_bad_input_is_one_line_and_exit_2(task, tmp_path):
    for arguments, said in [
        (["--task", task, "--root", tmp_path / "elsewhere"], "no database"),
        (["--task", task, "--root", tmp_path, "--methods", "bm25,none"], "no method 'none'; there are chess,"),
        (["--task", task, "--root", tmp_path, "--root", tmp_path], "1 tasks and 2 roots"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)  # four processes, each of which loads the encoder
def test_methods_with_an_encoder_are_measured_too(task, tmp_path):
    done = run("--task", task, "--root", tmp_path, "--methods", "chess,ours", "--rounds", 1, "--json")
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["methods"]
    built = {name: found["build"] for name, found in methods.items()}
    assert built["chess"]["values"] == 10 and built["chess"]["encoding_cpu_s"] == 0, "CHESS encodes when it is asked"
    assert 0 < built["ours"]["encoding_cpu_s"] < built["ours"]["cpu_s"] and built["ours"]["values"] == 19
    for found in methods.values():
        query = found["query"]
        assert 0 < query["encoding_ms"]["p50"] < query["wall_ms"]["p50"] and query["start_s"] > 0.01 * query["load_ms"]
    assert methods["ours"]["recall"]["all databases"]["all"]["10"]["value"] == 1
