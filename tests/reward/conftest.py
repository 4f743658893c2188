"""Completions played for real: a SQLite file, the fence dialect's environment, the sandbox, the panel."""

import sqlite3
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from serl.agent.env import Environment
from serl.config import AgentConfig, RewardConfig
from serl.data.example import Example
from serl.reward.panel import Panel, Reward
from serl.sql.sandbox import Limits, Sandbox
from tests.dialogue import Table, write_database
from tests.models import tiny_tokenizer

BYTES = tiny_tokenizer(256)  # a token is a byte, or one of the tags of thinking: lengths can be counted by hand
CITIES = [("Lima", "Peru", 10, 0.1), ("Cusco", "Peru", 4, 0.2), ("Quito", "Ecuador", 3, 0.3),
          ("Paris", "France", 11, 0.4), ("Paris", "Texas", 1, None)]

@cache
def environment(dialect: str, prefill: str) -> Environment:
    config = AgentConfig(dialect=dialect, prompt="brief", prefill=prefill, max_turns=1, max_new_tokens=256)
    return Environment.build(BYTES, config, max_length=2048)


Play = Callable[..., Reward | None]


@pytest.fixture(scope="session")
def dialogue(tmp_path_factory) -> Iterator[Table]:
    """The table at which conversations with tools are played (tests.dialogue.py)."""
    path = write_database(tmp_path_factory.mktemp("dialogue"))
    with Sandbox(2, Limits(timeout_s=0.3, max_rows=1000)) as sandbox:
        yield Table(path, sandbox)


@pytest.fixture(scope="session")
def play(tmp_path_factory) -> Iterator[Play]:
    """`play(completion, gold_sql)`: its reward, from sampled bytes to judged results."""
    path = tmp_path_factory.mktemp("played") / "city.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE city (name TEXT, country TEXT, people INTEGER, area REAL)")
        database.executemany("INSERT INTO city VALUES (?, ?, ?, ?)", CITIES)
    with Sandbox(2, Limits(timeout_s=0.3, max_rows=1000)) as sandbox:
        def played(completion: str, gold_sql: str, reward: RewardConfig, prefill: str = "", dialect: str = "fence"
                   ) -> Reward | None:
            env = environment(dialect, prefill)
            example = Example("1", "city", "which?", "", gold_sql, "", path, "dev")
            episode = env.start(env.prompt_ids(example, "city(name text)"))
            ids = BYTES.encode(completion, add_special_tokens=False)
            sql = episode.act(ids, [-0.5] * len(ids))
            episode.observe(None if sql is None else sandbox.run(path, sql))
            return Panel.of(reward, env.token_bytes.of).score(episode.trajectory, example, sandbox.run(path, gold_sql))

        yield played
