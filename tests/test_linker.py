"""Who links S' in serl: gold by opt-in, a server, or the policy of this process."""

import json
import sqlite3
from contextlib import contextmanager

import pytest

from grounding.reasoning import ChatError, reasoner
from serl import linker
from serl.config import load_config
from serl.errors import InputError
from serl.generate.interface import Generation, StopReason
from serl.linker import PolicyChat, policy_reasoner
from serl.task import make_grounder
from serl.train.run import train_run
from serl.workbench import workbench_of
from tests.grounding.chat_server import chat_server
from tests.models import tiny_model, tiny_tokenizer

QUERIES = ["SELECT population FROM city", "SELECT count(*) FROM river", "SELECT nothing.at.all FROM city"]
ASKS_POLICY = {"grounding.links": "reasoning+values"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A database of two tables and three questions; what the last one's gold uses cannot be told."""
    monkeypatch.setattr(reasoner, "PAUSE_S", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    (tmp_path / "train_databases" / "geo").mkdir(parents=True)
    connection = sqlite3.connect(tmp_path / "train_databases" / "geo" / "geo.sqlite")
    connection.executescript("CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, population INTEGER);"
                             "CREATE TABLE river (id INTEGER PRIMARY KEY, name TEXT);")
    connection.close()
    records = [{"question_id": i, "db_id": "geo", "question": "How many?", "evidence": "", "SQL": query,
                "difficulty": "simple"} for i, query in enumerate(QUERIES)]
    (tmp_path / "train.json").write_text(json.dumps(records))
    return tmp_path


def config_of(folder, **options):
    usual = {"data.root": folder, "grounding.cache": folder / "cache", "grounding.encoder": "none",
             "grounding.keep_all_columns": 0, "grounding.keep_table_columns": 0, "sql.gold_cache": folder / "gold",
             "agent.prompt": "brief", "agent.max_new_tokens": 32, "model.max_length": 1600}
    return load_config(None, [(key, str(value)) for key, value in (usual | options).items()])


@contextmanager
def prepared(folder, **options):
    """The questions of the training split as a policy sees them."""
    tokenizer = tiny_tokenizer()
    with workbench_of(config_of(folder, **options), tiny_model(len(tokenizer)), tokenizer) as bench:
        yield bench.preparer.prepare(bench.preparer.load_split("train"))


def test_oracle_shows_what_gold_uses_and_leaves_out_a_question_that_does_not_tell(folder, capsys):
    with prepared(folder, **{"grounding.mode": "oracle", "grounding.allow_gold": True}) as questions:
        assert [question.schema for question in questions] == ["city(id int pk, population int)", "river(id int pk)"]
    assert "1 of 3 questions are left out: 2 (" in capsys.readouterr().err


def test_without_the_opt_in_gold_changes_no_prompt(folder):
    with prepared(folder) as questions:
        before = [question.prompt_ids for question in questions]
    records = json.loads((folder / "train.json").read_text())
    (folder / "train.json").write_text(json.dumps([record | {"SQL": "SELECT name FROM river"} for record in records]))
    with prepared(folder) as questions:
        assert [question.prompt_ids for question in questions[:2]] == before


def test_a_server_names_links_and_what_failed_is_said(folder, capsys):
    answers = iter(['{"tables": ["river"], "projection": ["river.name"]}', "no", "neither"])
    with chat_server(lambda messages: next(answers)) as server:
        options = {**ASKS_POLICY, "grounding.chat_url": server.url, "grounding.chat_model": "m",
                   "grounding.chat_workers": 1}
        records = json.loads((folder / "train.json").read_text())
        records[1]["question"] = "How many of them?"
        (folder / "train.json").write_text(json.dumps(records))
        with prepared(folder, **options) as (first, second):
            assert first.schema == "river(id int pk, name text)"
            assert second.schema.startswith("city(") and "river(" in second.schema
    said = capsys.readouterr().err
    assert "train: 1 of 2 questions are linked without a model's answer" in said and "not one JSON object" in said


def test_a_policy_that_cannot_answer_is_asked_and_it_is_said(folder, capsys, monkeypatch):
    monkeypatch.setattr(linker, "NEW_TOKENS", 8)
    with prepared(folder, **ASKS_POLICY) as questions:
        assert all(question.schema.startswith("city(") for question in questions)
    assert "2 of 2 questions are linked without a model's answer" in capsys.readouterr().err


class Sampler:
    """A generator whose policy always says one thing."""

    def __init__(self, ids, stop):
        self.ids, self.stop, self.asked, self.pending = ids, stop, [], []

    def submit(self, key, request, max_new_tokens, temperature):
        assert request.stream is None, "greedy"
        self.asked.append(list(request.ids))
        self.pending.append(key)

    def poll(self, block=True):
        pending, self.pending = self.pending, []
        return [(key, Generation(self.ids, [0.0] * len(self.ids), self.stop)) for key in pending]


def test_the_policys_answer_is_its_text_without_the_end_token(folder):
    tokenizer = tiny_tokenizer()
    with workbench_of(config_of(folder), tiny_model(len(tokenizer)), tokenizer) as bench:
        ids = bench.encode('{"tables": []}')
        messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
        ended = Sampler([*ids, tokenizer.eos_token_id], StopReason.EOS)
        assert PolicyChat(ended, bench.env)(messages) == '{"tables": []}'
        assert ended.asked == [bench.env.framing.prompt_ids(messages)]
        assert PolicyChat(Sampler(ids, StopReason.LENGTH), bench.env)(messages) == '{"tables": []}'
        with pytest.raises(ChatError, match="leaves no room"):
            PolicyChat(ended, bench.env)([{"role": "user", "content": "long " * 2000}])
        object.__setattr__(bench.env, "max_length", 800)
        with pytest.raises(InputError, match="max_length 800 is too short"):
            policy_reasoner(ended, bench.env, bench.config.grounding)


def test_training_does_not_ask_the_policy_that_it_changes(folder):
    config = config_of(folder, **ASKS_POLICY)
    with pytest.raises(InputError, match="training changes"):
        train_run(config, folder / "run")
    assert not (folder / "run").exists()
    with pytest.raises(InputError, match="name a server"):
        make_grounder(config)
