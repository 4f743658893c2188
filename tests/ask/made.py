"""A workbench whose policy does what its question says, on real databases; no model."""

import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from grounding import Grounder
from serl.agent.env import Environment
from serl.config import AgentConfig, Config, GroundingOptions, ModelConfig
from serl.generate.interface import Generation, Request, StopReason
from serl.sql.limits import Limits
from serl.sql.sandbox import Sandbox
from tests.models import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
CONFIG = Config(model=ModelConfig(max_length=1024), grounding=GroundingOptions(encoder="none", budget=128),
                agent=AgentConfig(prompt="brief", max_turns=3, max_new_tokens=200))
SQL_S = 1.0  # that a query may take
FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
NEVER = None  # an action that is never complete
Script = Callable[[str, int, int], str | None]  # question, turn, sample → action


def obey(question: str, turn: int, sample: int) -> str | None:
    """`echo X`: look, then answer with X and the name of the database; other words are what goes wrong."""
    word, _, rest = question.partition(" ")
    mark = rest.replace("'", "''")
    query = {"echo": f"SELECT '{mark}', name FROM who", "slow": FOREVER, "rows": "SELECT name FROM who, many",
             "run": rest}.get(word)
    if word == "never":
        return NEVER
    if word == "differ":
        return f"<solution>SELECT {rest.split()[sample]}</solution>"
    if query is None:
        return "what?"
    looks = turn == 0 and word != "slow"
    return f"<think>turn {turn}</think><sql>{query}</sql>" if looks else f"<solution>{query}</solution>"


class Policy:
    """A generator that answers each request at the second poll after it."""

    stepwise = True

    def __init__(self, script: Script = obey) -> None:
        self.script, self.fail = script, False
        self.pending: dict[Hashable, tuple[str | None, int]] = {}
        self.turns: dict[Hashable, int] = {}
        self.prompts: list[list[int]] = []

    def submit(self, key: Hashable, request: Request, max_new_tokens: int, temperature: float) -> None:
        turn = self.turns[request.session] = self.turns.get(request.session, -1) + 1
        prompt = list(request.ids[: request.shared])
        if turn == 0:
            self.prompts.append(prompt)
        question = TOKENIZER.decode(prompt).rpartition("Question: ")[2].partition("<|im_end|>")[0]
        self.pending[key] = self.script(question, turn, request.stream[2] if request.stream else 0), 1

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        if self.fail:
            self.fail = False
            raise ConnectionError("the engine is gone")
        found = []
        for key, (text, wait) in list(self.pending.items()):
            if text is NEVER or wait:
                self.pending[key] = text, 0
                continue
            del self.pending[key]
            ids = TOKENIZER.encode(text, add_special_tokens=False)
            found.append((key, Generation(ids, [-0.5] * len(ids), StopReason.TAG)))
        threading.Event().wait(0.001)
        return found

    def cancel(self, key: Hashable) -> None:
        self.pending.pop(key, None)

    def release(self, session: Hashable) -> None:
        assert session not in self.pending
        self.turns.pop(session, None)


def make_databases(folder: Path, count: int) -> dict[str, Path]:
    """Databases that know their own name."""
    made = {}
    for number in range(count):
        path = made[f"db{number}"] = folder / f"db{number}.sqlite"
        with sqlite3.connect(path) as connection:
            connection.executescript(f"CREATE TABLE who(name TEXT); INSERT INTO who VALUES ('db{number}');"
                                     "CREATE TABLE many(n INTEGER);")
            connection.executemany("INSERT INTO many VALUES (?)", [(n,) for n in range(300)])
    return made


@contextmanager
def opened(cache: Path, policy: Policy, workers: int = 2, config: Config = CONFIG) -> Iterator[SimpleNamespace]:
    """What of a Workbench is used for asking."""
    with Sandbox(workers, Limits(timeout_s=SQL_S, grace_s=0.3)) as sandbox:
        yield SimpleNamespace(
            config=config, tokenizer=TOKENIZER, sandbox=sandbox, generator=lambda batch_size: policy,
            env=Environment.build(TOKENIZER, config.agent, config.model.max_length),
            preparer=SimpleNamespace(grounder=Grounder(cache, "none")))
