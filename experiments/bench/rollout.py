"""What sampling costs: `transformers.generate` against our generators, in the same multi-turn rollouts with real SQL.

    python experiments/bench/rollout.py [--shapes 512/1,512/4,1500/1,1500/4] [--repetitions 5] [--json]
    python experiments/bench/rollout.py --shapes "" --slow 512/4            the slow query only

A shape is prompt/turns. Each way rolls out `--questions` groups of `--group` trajectories with one model with random
weights; each action is followed by a query to a small SQLite file and an observation:

    generate   the usual trainer's way: one padded batch a turn, the library's cache, a barrier, then the turn's SQL
    plain      `serl.agent.rollout` with our plain decoder (share=False)
    ours       `serl.agent.rollout` with `serl.generate.hf`

`--generator NAME=module:function` adds a way: the function is called with (model, seed, rows) and gives a generator of
`serl.generate.interface` over that model's weights, such as a vLLM engine.

An action ends at one of many end tokens, so that lengths differ as they do in earnest: about geometric, with a mean of
`--mean` tokens if there were no cap. Ways are interleaved, after one repetition to warm up. Tokens per second of the
process's CPU time, and of wall time; speed-ups are medians of the ratios of each repetition. Plain and ours sample the
same tokens, or this stops.

The slow query: one of the trajectories asks something that takes `--slow-seconds`. How much longer do all the others
take than in a rollout without it?
"""

import argparse
import hashlib
import importlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from experiments.bench.step import make_model
from serl.agent.rollout import Job, rollout
from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.generate.hf import HFGenerator
from serl.generate.interface import Generator
from serl.sql.limits import Limits
from serl.sql.sandbox import Sandbox

SHAPES = "512/1,512/4,1500/1,1500/4"
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


class Bench:
    """One model, one database, and the ways to roll out."""

    def __init__(self, shape: Shape, args: argparse.Namespace, sandbox: Sandbox, database: Path) -> None:
        import torch

        self.shape, self.args, self.sandbox = shape, args, sandbox
        self.model = make_model(args.vocab, args).to(args.device, getattr(torch, args.dtype)).eval()
        draw = torch.Generator().manual_seed(1)

        def ids(count: int) -> list[int]:
            return torch.randint(3, args.vocab, (count,), generator=draw).tolist()

        self.eos = sorted(set(torch.randperm(args.vocab, generator=draw)[: args.vocab // args.mean].tolist()))
        self.observation = ids(args.observation)
        example = Example("0", "bench", "", "", "", "", database, "")
        self.jobs = [Job(example, prompt, (question, number)) for question in range(args.questions)
                     for prompt in [tuple(ids(shape.prompt))] for number in range(args.group)]

    def conversations(self, slow: bool) -> Callable[[list[int]], Conversation]:
        """What starts an episode; the first one has the slow query, if any."""
        first = [slow]

        def start(prompt: list[int]) -> Conversation:
            return Conversation(prompt, self.shape.turns, self.observation, bool(first) and first.pop())

        return start

    def generator(self, share: bool) -> Generator:
        no_text = SimpleNamespace(of=lambda token: b"")
        return HFGenerator(self.model, no_text, set(self.eos), lambda sampled, fresh: False, 0, len(self.jobs), share)

    def roll_out(self, generator: Generator, slow: bool = False, progress: Callable[[int], None] = lambda finished: None
                 ) -> tuple[list[Trajectory], dict[str, float]]:
        env = SimpleNamespace(config=SimpleNamespace(max_new_tokens=self.args.action), start=self.conversations(slow))
        result = rollout(env, generator, self.sandbox, self.jobs, 1.0, progress)
        generator.close()
        return result.trajectories, {"sql_wait": result.sql_wait_seconds, "sql": result.sql_seconds}

    def usual(self) -> tuple[list[Trajectory], dict[str, float]]:
        """Turn by turn with `transformers.generate`."""
        import torch

        from serl.ragged import pad

        start = self.conversations(slow=False)
        running, seconds = [start(list(job.prompt_ids)) for job in self.jobs], {"sql_wait": 0.0, "sql": 0.0}
        for _ in range(self.shape.turns):
            states = [conversation.trajectory.token_ids for conversation in running]
            ids_BL = pad(states, 0, torch.long, self.model.device, left=True)
            mask_BL = pad([[1] * len(ids) for ids in states], 0, torch.long, self.model.device, left=True)
            out_BT = self.model.generate(
                input_ids=ids_BL, attention_mask=mask_BL, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                max_new_tokens=self.args.action, eos_token_id=self.eos, pad_token_id=0)[:, ids_BL.shape[1]:].tolist()
            queries = []
            for conversation, row in zip(running, out_BT):
                end = next((place + 1 for place, token in enumerate(row) if token in self.eos), len(row))
                queries.append(conversation.act(row[:end], [0.0] * end))
            before = time.perf_counter()
            outcomes = self.sandbox.run_many([(job.example.db_path, sql) for job, sql in zip(self.jobs, queries)])
            seconds["sql_wait"] += time.perf_counter() - before
            for conversation, outcome in zip(running, outcomes):
                seconds["sql"] += outcome.ms / 1000
                conversation.observe(outcome)
        return [conversation.trajectory for conversation in running], seconds

    def ways(self) -> dict[str, Callable[[], tuple[list[Trajectory], dict[str, float]]]]:
        found = {"generate": self.usual, "plain": lambda: self.roll_out(self.generator(share=False)),
                 "ours": lambda: self.roll_out(self.generator(share=True))}
        for text in self.args.generator:
            name, _, where = text.partition("=")
            module, _, function = where.partition(":")
            make = getattr(importlib.import_module(module), function)
            found[name] = lambda make=make: self.roll_out(make(self.model, 0, len(self.jobs)))
        return {name: way for name, way in found.items() if name not in self.args.without}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="with commas between; may be empty")
    parser.add_argument("--slow", default="512/4", help="shape of the rollouts with a slow query; may be empty")
    parser.add_argument("--slow-seconds", type=float, default=5.0)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--mean", type=int, default=48, help="tokens of an action on average, if there were no cap")
    parser.add_argument("--action", type=int, default=112, help="tokens that an action has at most")
    parser.add_argument("--observation", type=int, default=60, help="tokens of an observation")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--workers", type=int, default=2, help="of the SQL sandbox")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--generator", action="append", default=[], metavar="NAME=module:function")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave a way out")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    args = parser.parse_args()
    if "ours" in args.without:
        parser.error("--without ours: the others are compared with it")
    import torch

    torch.set_num_threads(args.threads)
    shapes = [Shape.of(text) for text in args.shapes.split(",") if text]
    slow = Shape.of(args.slow) if args.slow else None
    with opened(args) as (sandbox, database), tqdm(total=(len(shapes) + bool(slow)) * (args.repetitions + 1),
                                                   desc="rollout", unit="repetition") as bar:
        measured = [measure(Bench(shape, args, sandbox, database), bar.update) for shape in shapes]
        slowed = measure_slow(Bench(slow, args, sandbox, database), bar.update) if slow else {}
    result = {"options": vars(args), "throughput": measured, "slow": slowed}
    print(json.dumps(result) if args.json else tables(result))


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


def measure(bench: Bench, passed: Callable[[], object]) -> dict[str, Any]:
    """Tokens per second of every way, how much faster ours is, and the share of SQL in ours and in the usual way."""
    ways = bench.ways()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    sampled = {}
    for _ in range(bench.args.repetitions + 1):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            trajectories, seconds = way()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            tokens = sum(trajectory.loss_tokens for trajectory in trajectories)
            runs[name].append({"cpu": tokens / cpu, "wall": tokens / wall, "sql_wait": seconds["sql_wait"] / wall,
                               "sql": seconds["sql"] / wall, "tokens": tokens})
            sampled[name] = [trajectory.token_ids for trajectory in trajectories]
        passed()
    if "plain" in ways and "ours" in ways and sampled["plain"] != sampled["ours"]:
        sys.exit(f"rollout.py: at {bench.shape}, plain and ours do not sample the same tokens")
    runs = {name: rows[1:] for name, rows in runs.items()}
    return {"shape": str(bench.shape),
            "ways": {name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
                     for name, rows in runs.items()},
            "speedup": {name: {key: statistics.median(ours[key] / other[key] for ours, other in zip(runs["ours"], rows))
                               for key in ("cpu", "wall")} for name, rows in runs.items() if name != "ours"},
            "digest": hashlib.sha256(json.dumps(sampled["ours"]).encode()).hexdigest()[:12]}


def measure_slow(bench: Bench, passed: Callable[[], object]) -> dict[str, float]:
    """Seconds until all trajectories but the first are done, with a slow query of that one and without."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(bench.args.repetitions + 1):
        for slow, measured in seconds.items():
            finished: list[float] = []
            start = time.perf_counter()
            bench.roll_out(bench.generator(share=True), slow,
                           lambda count, finished=finished, start=start: finished.append(time.perf_counter() - start))
            # Without a slow query the first trajectory is among the others, and as long as they are.
            measured.append(finished[-2])
        passed()
    without, with_slow = (spent[1:] for spent in seconds.values())
    return {"shape": str(bench.shape), "without": statistics.median(without), "with": statistics.median(with_slow),
            "loss": 1 - statistics.median(one / other for one, other in zip(without, with_slow))}


def tables(result: dict[str, Any]) -> str:
    """A table of each shape's ways, and a line about the slow query, for people."""
    lines = []
    if result["throughput"]:
        lines.append(f"{'shape':>8} {'way':>10} {'tokens':>7} {'tokens/CPU s':>13} {'tokens/s':>9} "
                     f"{'ours is faster, CPU':>20} {'wall':>6} {'waits for SQL, %':>17} {'SQL meanwhile, %':>17}")
    for row in result["throughput"]:
        for name, way in row["ways"].items():
            speedup = row["speedup"].get(name, {"cpu": 1.0, "wall": 1.0})
            lines.append(f"{row['shape']:>8} {name:>10} {way['tokens']:7.0f} {way['cpu']:13.0f} {way['wall']:9.0f} "
                         f"{speedup['cpu']:20.2f} {speedup['wall']:6.2f} {100 * way['sql_wait']:17.1f} "
                         f"{100 * way['sql']:17.1f}")
    if slow := result["slow"]:
        lines.append(f"a query of {result['options']['slow_seconds']:g} s at {slow['shape']}: the others take "
                     f"{slow['with']:.2f} s instead of {slow['without']:.2f}, "
                     f"{100 * slow['loss']:.1f}% less throughput")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
