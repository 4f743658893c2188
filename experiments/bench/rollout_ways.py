"""What the rollout benchmark rolls out, and by whom: see `experiments.bench.rollout`."""

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

from experiments.bench.step_ways import make_model
from serl.agent.rollout import Job, rollout
from serl.agent.trajectory import Trajectory
from serl.config import Config, VLLMConfig
from serl.data.example import Example
from serl.generate.hf import HFGenerator
from serl.generate.interface import Generator
from serl.generate.stopping import StopRule
from serl.generate.vllm.build import Engines, make_engines
from serl.model import resolve
from serl.sql.limits import Limits
from serl.sql.sandbox import Sandbox

WAYS = ("generate", "plain", "ours")
ENGINES = ("vllm", "vllm_server")
QUICK = "SELECT grp, count(*), avg(value) FROM item GROUP BY grp ORDER BY 2 DESC"
FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
ROWS = 20_000  # of the table


@dataclass(frozen=True)
class Shape:
    """Tokens of the prompt, actions a trajectory."""

    prompt: int
    turns: int

    @classmethod
    def of(cls, text: str) -> "Shape":
        return cls(*map(int, text.split("/")))

    def __str__(self) -> str:
        return f"{self.prompt}/{self.turns}"


class Conversation:
    """An episode as `serl.agent.rollout` wants it: SQL and observations are given, whatever was sampled."""

    def __init__(self, prompt: Sequence[int], turns: int, observation: Sequence[int], slow: bool) -> None:
        self.trajectory, self.turns, self.observation, self.slow = Trajectory(), turns, observation, slow
        self.trajectory.append_context(list(prompt))

    @property
    def done(self) -> bool:
        return self.trajectory.stop != ""

    def act(self, ids: list[int], logprobs: list[float]) -> str:
        self.trajectory.append_sampled(ids, logprobs, [1] * len(ids))
        self.trajectory.turns.append(None)
        return FOREVER if self.slow and len(self.trajectory.turns) == 1 else QUICK

    def observe(self, outcome: object) -> None:
        if len(self.trajectory.turns) == self.turns:
            self.trajectory.stop = "max_turns"
        else:
            self.trajectory.append_context(list(self.observation))


class Policy:
    """What all ways sample from: a model with random weights, and the end tokens of an action."""

    def __init__(self, args: argparse.Namespace) -> None:
        import torch

        self.args = args
        self.model = make_model(args.vocab, args).to(args.device, getattr(torch, args.dtype)).eval()
        draw = torch.Generator().manual_seed(2)
        ends = torch.randperm(args.vocab, generator=draw)[: args.vocab // args.mean].tolist()
        self.rule = StopRule(lambda token: b"", frozenset(ends), (), lambda sampled, fresh: False)

    def generator(self, rows: int, share: bool) -> HFGenerator:
        return HFGenerator(self.model, self.rule, 0, rows, share)

    def engines(self, kind: str, shapes: Sequence[Shape]) -> Engines:
        """vLLM with this model, long enough for all shapes. What its tokens say, by whatever tokenizer, is not read."""
        from transformers import AutoTokenizer

        args = self.args
        longest = max(shape.prompt + shape.turns * (args.action + args.observation) for shape in shapes)
        options = VLLMConfig(dtype=args.dtype, kv_cache_gib=args.kv_cache_gib, threads=args.threads)
        config = replace(Config(), model=replace(Config().model, dtype=args.dtype, max_length=longest),
                         rollout=replace(Config().rollout, engine=kind, vllm=options))
        return make_engines(config, self.model, AutoTokenizer.from_pretrained(resolve("embedded")[0]), self.rule)


class Bench:
    """One shape: its prompts and observations, a database, and the ways to roll out."""

    def __init__(self, shape: Shape, policy: Policy, sandbox: Sandbox, database: Path,
                 engines: Mapping[str, Engines] = MappingProxyType({})) -> None:
        import torch

        self.shape, self.policy, self.sandbox, self.engines = shape, policy, sandbox, engines
        self.args, self.model = policy.args, policy.model
        draw = torch.Generator().manual_seed(1)

        def ids(count: int) -> list[int]:
            return torch.randint(3, self.args.vocab, (count,), generator=draw).tolist()

        self.observation = ids(self.args.observation)
        example = Example("0", "bench", "", "", "", "", database, "")
        self.jobs = [Job(example, prompt, (question, number)) for question in range(self.args.questions)
                     for prompt in [tuple(ids(shape.prompt))] for number in range(self.args.group)]

    def conversations(self, slow: bool) -> Callable[..., Conversation]:
        """What starts an episode; the first one has the slow query, if any."""
        first = [slow]

        def start(prompt: list[int], memory: None = None) -> Conversation:
            return Conversation(prompt, self.shape.turns, self.observation, bool(first) and first.pop())

        return start

    def generator(self, name: str) -> Generator:
        """A generator of the way of that name that knows no prompt yet."""
        if name not in self.engines:
            return self.policy.generator(len(self.jobs), share=name == "ours")
        self.engines[name].changed()
        return self.engines[name].current(self.model)

    def roll_out(self, generator: Generator, slow: bool = False, progress: Callable[[int], None] = lambda finished: None
                 ) -> tuple[list[Trajectory], dict[str, float]]:
        env = SimpleNamespace(config=SimpleNamespace(max_new_tokens=self.args.action), start=self.conversations(slow))
        result = rollout(env, generator, self.sandbox, self.jobs, 1.0, progress)
        return result.trajectories, {"sql_wait": result.sql_wait_seconds, "sql": result.sql_seconds}

    def usual(self) -> tuple[list[Trajectory], dict[str, float]]:
        """Turn by turn with `transformers.generate`."""
        import torch

        from serl.ragged import pad

        start, ends = self.conversations(slow=False), self.policy.rule.eos_ids
        running, seconds = [start(list(job.prompt_ids)) for job in self.jobs], {"sql_wait": 0.0, "sql": 0.0}
        for _ in range(self.shape.turns):
            states = [conversation.trajectory.token_ids for conversation in running]
            ids_BL = pad(states, 0, torch.long, self.model.device, left=True)
            mask_BL = pad([[1] * len(ids) for ids in states], 0, torch.long, self.model.device, left=True)
            out_BL = self.model.generate(
                input_ids=ids_BL, attention_mask=mask_BL, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                max_new_tokens=self.args.action, eos_token_id=sorted(ends), pad_token_id=0)
            queries = []
            for conversation, row in zip(running, out_BL[:, ids_BL.shape[1]:].tolist()):
                end = next((place + 1 for place, token in enumerate(row) if token in ends), len(row))
                queries.append(conversation.act(row[:end], [0.0] * end))
            before = time.perf_counter()
            outcomes = self.sandbox.run_many([(job.example.db_path, sql) for job, sql in zip(self.jobs, queries)])
            seconds["sql_wait"] += time.perf_counter() - before
            for conversation, outcome in zip(running, outcomes):
                seconds["sql"] += outcome.ms / 1000
                conversation.observe(outcome)
        return [conversation.trajectory for conversation in running], seconds

    def way(self, name: str) -> Callable[[], tuple[list[Trajectory], dict[str, float]]]:
        """What rolls out, made ready: it is what comes after this that is timed."""
        return self.usual if name == "generate" else partial(self.roll_out, self.generator(name))


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[tuple[Sandbox, Path]]:
    """A sandbox whose workers are up, and a database."""
    limits = Limits(timeout_s=args.slow_seconds)
    with tempfile.TemporaryDirectory() as folder, Sandbox(args.workers, limits) as sandbox:
        path = Path(folder) / "bench.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, value REAL)")
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", ((i, i * i % 97, i * 0.5) for i in range(ROWS)))
        connection.commit()
        connection.close()
        assert all(outcome.ran for outcome in sandbox.run_many([(path, QUICK)] * 4 * args.workers))
        yield sandbox, path
