"""Prepared questions: order, long questions, gold that cannot be trusted."""

import json
import sqlite3
from collections import Counter
from dataclasses import replace

import pytest

from serl.config import load_config
from serl.data.balance import Sample, balanced
from serl.errors import InputError
from serl.task import Preparer, Split, load_examples, question_order, training_part, unseen
from serl.workbench import workbench_of
from tests.agent.test_env import EXAMPLE
from tests.data.layouts import make_spider, make_synsql, synsql_record
from tests.models import tiny_model, tiny_tokenizer


def test_every_question_comes_once_an_epoch_and_any_window_can_be_asked_alone():
    whole = question_order(7, seed=3, start=0, size=21)
    assert all(Counter(whole[i: i + 7]) == Counter(range(7)) for i in (0, 7, 14))
    assert whole[:7] != whole[7:14]
    assert [question_order(7, 3, i, 4) for i in range(18)] == [whole[i: i + 4] for i in range(18)]


@pytest.fixture
def bench(tmp_path):
    """A workbench on one database with three questions: a usual one, a long one, one whose gold fails."""
    folder = tmp_path / "train_databases" / "geo"
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "geo.sqlite")
    columns = ", ".join(f"column_{i} TEXT" for i in range(30))
    connection.executescript(f"CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, {columns});"
                             "INSERT INTO city (id, name) VALUES (1, 'Lima');")
    connection.close()
    questions = ["name of the city?", "name of the city? " + "long " * 40, "broken?"]
    sql = ["SELECT name FROM city", "SELECT name FROM city", "SELECT nothing FROM city"]
    records = [{"question_id": i, "db_id": "geo", "question": question, "evidence": "", "SQL": query,
                "difficulty": "simple"} for i, (question, query) in enumerate(zip(questions, sql))]
    (tmp_path / "train.json").write_text(json.dumps(records))
    tokenizer = tiny_tokenizer()
    options = {"data.root": tmp_path, "grounding.cache": tmp_path / "cache", "grounding.encoder": "none",
               "grounding.mode": "full", "sql.gold_cache": tmp_path / "gold", "agent.prompt": "brief",
               "agent.max_new_tokens": 32, "model.max_length": 420}
    config = load_config(None, [(key, str(value)) for key, value in options.items()])
    with workbench_of(config, tiny_model(len(tokenizer)), tokenizer) as opened:
        yield opened


def test_a_question_whose_gold_fails_is_left_out_and_named(bench, capsys):
    split = bench.preparer.load_split("train")
    assert [example.question_id for example in split.examples] == ["0", "1"]
    assert "1 of 3 questions are left out" in capsys.readouterr().err


def test_a_long_question_gets_a_shorter_schema_instead_of_ending_the_run(bench):
    split = bench.preparer.load_split("train")
    usual, long = bench.preparer.prepare(split, [0, 1])
    assert len(usual.prompt_ids) <= 388 and len(long.prompt_ids) <= 388
    assert len(long.schema) < len(usual.schema) and "name text" in long.schema


def test_prompts_fit_whatever_the_length_is(bench):
    """Tokens may join where the schema ends: taking off what is over is not always enough."""
    split = bench.preparer.load_split("train")
    for length in range(370, 420, 3):
        object.__setattr__(bench.env, "max_length", length)
        preparer = Preparer(bench.config, bench.env, bench.sandbox)
        for question in preparer.prepare(split, [0, 1]):
            assert len(question.prompt_ids) <= bench.env.longest_prompt == length - 32


def test_a_length_that_leaves_no_room_for_a_prompt_is_refused(bench):
    object.__setattr__(bench.env, "max_length", 32 + 64)
    with pytest.raises(InputError, match="model.max_length 96 leaves 64 tokens for a prompt.*agent.max_new_tokens"):
        Preparer(bench.config, bench.env, bench.sandbox)


def test_a_question_without_room_for_a_schema_is_left_out_and_named(bench, capsys):
    object.__setattr__(bench.env, "max_length", 300)
    split = bench.preparer.load_split("train")
    assert [example.question_id for example in split.examples] == ["0"]
    assert "1 (" in capsys.readouterr().err


def test_samples_are_shown_where_the_config_asks_for_them(bench):
    object.__setattr__(bench.env, "max_length", 2000)
    split = bench.preparer.load_split("train")
    plain, = bench.preparer.prepare(split, [0])
    options = replace(bench.config.grounding, samples=1)
    preparer = Preparer(replace(bench.config, grounding=options), bench.env, bench.sandbox)
    shown, = preparer.prepare(split, [0])
    assert "e.g." not in plain.schema and "name text e.g. 'Lima'" in shown.schema


def test_a_sample_of_a_split_and_the_whole_split_share_their_questions(bench):
    """The learning curve asks a sample before the evaluation asks everything: positions must not be mixed up."""
    whole = bench.preparer.load_split("train")
    sample = bench.preparer.load_split("train", 1)
    assert len(sample) == 1
    (asked,) = bench.preparer.prepare(sample)
    assert asked.example is sample.examples[0] and asked.index == sample.positions[0]
    assert [question.example for question in bench.preparer.prepare(whole)] == whole.examples


def test_warm_start_and_rl_share_no_question_and_miss_none():
    examples = [replace(EXAMPLE, question_id=str(number)) for number in range(50)]
    low, high = (set(training_part(examples, load_config(None, [(f"data.{end}", "0.8")])))
                 for end in ("train_to", "train_from"))
    assert (len(low), len(high)) == (40, 10)
    assert not low & high and low | high == set(range(50))
    assert low != set(range(40)), "the parts are shuffled, since a file may be sorted by database"


def test_a_length_beyond_the_models_positions_is_refused(bench):
    config = replace(bench.config, model=replace(bench.config.model, max_length=4097))
    with (pytest.raises(InputError, match="max_length is 4097; model embedded has only 4096 positions"),
          workbench_of(config, bench.model, bench.tokenizer)):
        pass


def synsql_config(root, **options):
    base = {"data.format": "synsql", "data.root": root, "data.train_split": "data", "data.eval_split": "dev",
            "grounding.cache": root / "cache", "grounding.encoder": "none", "sql.gold_cache": root / "gold",
            "agent.prompt": "brief", "agent.max_new_tokens": 32, "model.max_length": 420}
    return load_config(None, [(key, str(value)) for key, value in (base | options).items()])


@pytest.fixture
def synsql(tmp_path):
    """40 questions of two levels; in each level one of four returns no row, and one of four fails."""
    sql = ["SELECT a FROM t", "SELECT a FROM t WHERE a > 1", "SELECT a FROM t WHERE a > 9", "SELECT b FROM t"]
    make_synsql(tmp_path, [synsql_record(question=f"Which {i}?", sql=sql[i % 4],
                                         sql_complexity="Complex" if i % 8 < 4 else "Simple") for i in range(40)])
    return tmp_path


def split_of(config) -> Split:
    tokenizer = tiny_tokenizer()
    with workbench_of(config, tiny_model(len(tokenizer)), tokenizer) as bench:
        return bench.preparer.load_split("data")


def test_gold_that_fails_or_returns_nothing_is_dropped_and_counted(synsql, capsys):
    assert len(split_of(synsql_config(synsql))) == 30
    assert "(in all 10 gold error)" in capsys.readouterr().err
    split = split_of(synsql_config(synsql, **{"data.empty_gold": "drop"}))
    assert len(split) == 20 and {outcome.status for outcome in map(split.gold.get, ids(split))} == {"ok"}
    assert "20 of 40 questions are left out" in (said := capsys.readouterr().err)
    assert "in all 10 gold" in said and "10 gold empty" in said


def test_spare_questions_replace_those_whose_gold_cannot_be_used(synsql):
    options = {"data.empty_gold": "drop", "data.per_level": 5}
    split = split_of(synsql_config(synsql, **options, **{"data.spare": 3}))
    assert Counter(example.difficulty for example in split.examples) == {"Complex": 5, "Simple": 5}
    whole = split_of(synsql_config(synsql, **{"data.empty_gold": "drop"}))
    assert split.examples == balanced(whole.examples, Sample(per_level=5))
    assert len(split_of(synsql_config(synsql, **options))) < 10


def ids(split: Split) -> list[str]:
    return [example.question_id for example in split.examples]


def test_evaluation_may_have_another_data_set(synsql, tmp_path):
    records = [{"db_id": "shop", "question": "How many?", "query": "SELECT count(*) FROM t"}]
    make_spider(tmp_path / "spider", records)
    config = synsql_config(synsql, **{"data.eval_format": "spider", "data.eval_root": tmp_path / "spider"})
    (example,) = load_examples(config, "dev")
    assert example.gold_sql == "SELECT count(*) FROM t" and len(load_examples(config, "data")) == 40
    assert unseen([example], config) == {"shop"}


@pytest.mark.parametrize(("options", "message"), [
    ({"data.format": "bird", "data.per_level": 3}, "data.per_level is of no use"),
    ({"data.spare": 0.5}, "beyond data.per_level"),
    ({"data.spare": 0.5, "data.per_level": 3, "data.train_to": 0.5}, "leave data.train_from 0"),
    ({"data.eval_root": "x"}, "go together"),
    ({"data.eval_root": "x", "data.eval_format": "spider", "data.eval_split": "data"}, "known by their names"),
])
def test_options_of_samples_that_say_nothing_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        synsql_config(tmp_path, **options)
