"""Conversations with tools played for real: a SQLite file, hermes' environment, the memory, the sandbox, the panel."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from serl.agent.dialects import Kind
from serl.agent.env import Environment
from serl.agent.past import Past
from serl.agent.trajectory import Trajectory
from serl.config import AgentConfig, RewardConfig
from serl.data.example import Example
from serl.reward.panel import Panel, Reward
from serl.sql.sandbox import Sandbox
from tests.models import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
CITIES = [("Lima", "Peru", 10), ("Cusco", "Peru", 4), ("Quito", "Ecuador", 3), ("Paris", "France", 11),
          ("Paris", "Texas", 1)]
TABLES = [{"db_id": "city", "table_names_original": ["city", "country"], "foreign_keys": [],
           "column_names_original": [[-1, "*"], [0, "name"], [0, "country"], [0, "people"], [1, "name"], [1, "code"]]}]
BEFORE = "SELECT name FROM city WHERE people > 3"
BOTH = ("exec_sql", "memory_retrieve")


def q(sql: str) -> str:
    """A query for the database."""
    return environment().dialect.write(Kind.SQL, sql)


def r(sql: str) -> str:
    """A look into the memory."""
    return environment().dialect.write(Kind.RECALL, sql)


def a(sql: str) -> str:
    """The answer."""
    return f"<answer_sql>{sql}</answer_sql>"


@cache
def environment(tools: tuple[str, ...] = BOTH, order: str = "off", max_turns: int = 5) -> Environment:
    config = AgentConfig(dialect="hermes", prompt="brief", tools=tools, order=order, max_turns=max_turns,
                         max_new_tokens=600, observation_tokens=400)
    return Environment.build(TOKENIZER, config, max_length=8192)


def write_database(folder: Path) -> Path:
    path = folder / "city.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE city (name TEXT, country TEXT, people INTEGER)")
        database.execute("CREATE TABLE country (name TEXT, code TEXT)")
        database.executemany("INSERT INTO city VALUES (?, ?, ?)", CITIES)
        database.execute("INSERT INTO country VALUES ('Peru', 'PE')")
    (folder / "tables.json").write_text(json.dumps(TABLES))
    return path


@dataclass(frozen=True)
class Table:
    """The second turn of a dialogue, whose gold a test chooses."""

    path: Path
    sandbox: Sandbox

    def example(self, gold: str) -> Example:
        return Example("0/2", "city", "Only those in Peru.", "", gold, "", self.path, "dev", interaction="0", turn=2,
                       tables_path=self.path.with_name("tables.json"))

    @property
    def past(self) -> Past:
        earlier = Example("0/1", "city", "Which cities have over 3 people?", "", BEFORE, "", self.path, "dev",
                          interaction="0", turn=1)
        return Past(self.path, (earlier,), {"0/1": self.sandbox.run(self.path, BEFORE)})

    def play(self, actions: Sequence[str], env: Environment | None = None) -> Trajectory:
        """The conversation in which the policy says these texts."""
        env = env or environment()
        example, past = self.example("SELECT 1"), self.past
        episode = env.start(env.prompt_ids(example, "city(name text)", past.earlier), lambda: past.memory({}))
        for text in actions:
            assert not episode.done, f"nobody hears {text}"
            ids = TOKENIZER.encode(text, add_special_tokens=False)
            sql = episode.act(ids, [-0.5] * len(ids))
            episode.observe(None if sql is None else self.sandbox.run(self.path, sql))
        return episode.trajectory

    def reward(self, actions: Sequence[str], gold: str, options: RewardConfig, env: Environment | None = None
               ) -> Reward:
        trajectory = self.play(actions, env)
        return Panel.of(options, environment().token_bytes.of).score(trajectory, self.example(gold),
                                                                     self.sandbox.run(self.path, gold))


PERU = BEFORE + " AND country = 'Peru'"
DIALOGUES = [[BEFORE, PERU], ["SELECT name FROM country", "SELECT name, code FROM country",
                              "SELECT count(*) FROM country"], ["SELECT count(*) FROM city"]]


def write_sparc(root: Path) -> Path:
    """Dialogues in SParC's layout, the same ones for training and evaluation."""
    folder = root / "database" / "city"
    folder.mkdir(parents=True)
    write_database(folder)
    (folder / "tables.json").rename(root / "tables.json")
    records = [{"database_id": "city", "interaction": [{"utterance": f"dialogue {number}, turn {turn}?", "query": sql}
                                                       for turn, sql in enumerate(queries, start=1)]}
               for number, queries in enumerate(DIALOGUES)]
    for split in ("train", "dev"):
        (root / f"{split}.json").write_text(json.dumps(records))
    return root
