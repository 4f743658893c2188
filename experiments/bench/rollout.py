"""What sampling costs: `transformers.generate` against our generators, in the same multi-turn rollouts with real SQL.

    python experiments/bench/rollout.py [--shapes 512/1,512/4,1500/1,1500/4] [--repetitions 5] [--json]
    python experiments/bench/rollout.py --engine vllm --engine vllm_server  the same, and vLLM
    python experiments/bench/rollout.py --shapes "" --slow 512/4            the slow query only

A shape is prompt/turns. Each way rolls out `--questions` groups of `--group` trajectories with one model with random
weights; each action is followed by a query to a small SQLite file and an observation:

    generate   the usual trainer's way: one padded batch a turn, the library's cache, a barrier, then the turn's SQL
    plain      `serl.agent.rollout` with our plain decoder (share=False)
    ours       `serl.agent.rollout` with `serl.generate.hf`
    vllm, vllm_server   the same loop with an engine of vLLM, in process or as a server (`--engine`)

An action ends at one of many end tokens, so that lengths differ as they do in earnest: about geometric, with a mean of
`--mean` tokens if there were no cap. Ways are interleaved, after one repetition to warm up. Tokens per second of CPU
time, an engine's processes included and the sandbox's not, and of wall time; speed-ups are medians of the ratios of
each repetition. Plain and ours sample the same tokens, or this stops. Before each repetition an engine takes over the
weights, which is timed apart and makes it forget the prompts: all ways read them anew.

The slow query: one of the trajectories asks something that takes `--slow-seconds`. How much longer do all the others
take than in a rollout without it? For ours, and for each engine.
"""

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from experiments.bench.process import cpu_seconds
from experiments.bench.rollout_ways import ENGINES, WAYS, Bench, Policy, Shape, opened

SHAPES = "512/1,512/4,1500/1,1500/4"


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
    parser.add_argument("--engine", action="append", default=[], choices=ENGINES, help="measure vLLM, too")
    parser.add_argument("--kv-cache-gib", type=float, default=1.0, help="of an engine")
    parser.add_argument("--without", action="append", default=[], choices=("generate", "plain"), help="leave a way out")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    shapes = [Shape.of(text) for text in args.shapes.split(",") if text]
    slow = Shape.of(args.slow) if args.slow else None
    every = [*shapes, *([slow] if slow else [])]
    total = len(every) * (args.repetitions + 1)
    with ExitStack() as stack, tqdm(total=total, desc="rollout", unit="repetition") as bar:
        sandbox, database = stack.enter_context(opened(args))
        policy = Policy(args)
        engines = {kind: stack.enter_context(closing(policy.engines(kind, every))) for kind in args.engine}
        measured = [measure(Bench(shape, policy, sandbox, database, engines), bar.update) for shape in shapes]
        slowed = measure_slow(Bench(slow, policy, sandbox, database, engines), bar.update) if slow else []
    result = {"options": vars(args), "throughput": measured, "slow": slowed}
    print(json.dumps(result) if args.json else tables(result))


def measure(bench: Bench, passed: Callable[[], object]) -> dict[str, Any]:
    """Tokens per second of every way, how much faster ours is, and the share of SQL in each."""
    names = [name for name in (*WAYS, *bench.engines) if name not in bench.args.without]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    sampled, others = {}, bench.sandbox.pids()
    for _ in range(bench.args.repetitions + 1):
        for name in names:
            ready = time.perf_counter()
            way = bench.way(name)
            wall, cpu = time.perf_counter(), cpu_seconds(others)
            trajectories, seconds = way()
            cpu, end = cpu_seconds(others) - cpu, time.perf_counter()
            tokens = sum(trajectory.loss_tokens for trajectory in trajectories)
            runs[name].append({"cpu": tokens / cpu, "wall": tokens / (end - wall), "tokens": tokens,
                               "sync": wall - ready, **{key: spent / (end - wall) for key, spent in seconds.items()}})
            sampled[name] = [trajectory.token_ids for trajectory in trajectories]
        passed()
    if "plain" in names and sampled["plain"] != sampled["ours"]:
        sys.exit(f"rollout.py: at {bench.shape}, plain and ours do not sample the same tokens")
    runs = {name: rows[1:] for name, rows in runs.items()}
    return {"shape": str(bench.shape),
            "ways": {name: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
                     for name, rows in runs.items()},
            "speedup": {name: {key: statistics.median(ours[key] / other[key] for ours, other in zip(runs["ours"], rows))
                               for key in ("cpu", "wall")} for name, rows in runs.items() if name != "ours"},
            "digest": hashlib.sha256(json.dumps(sampled["ours"]).encode()).hexdigest()[:12]}


def measure_slow(bench: Bench, passed: Callable[[], object]) -> list[dict[str, Any]]:
    """Seconds until all trajectories but the first are done, with a slow query of that one and without."""
    names = ("ours", *bench.engines)
    seconds: dict[tuple[str, bool], list[float]] = {(name, slow): [] for name in names for slow in (False, True)}
    for _ in range(bench.args.repetitions + 1):
        for (name, slow), measured in seconds.items():
            finished: list[float] = []
            generator, start = bench.generator(name), time.perf_counter()
            bench.roll_out(generator, slow,
                           lambda count, finished=finished, start=start: finished.append(time.perf_counter() - start))
            # Without a slow query the first trajectory is among the others, and as long as they are.
            measured.append(finished[-2])
        passed()
    out = []
    for name in names:
        without, with_slow = seconds[name, False][1:], seconds[name, True][1:]
        out.append({"shape": str(bench.shape), "way": name, "without": statistics.median(without),
                    "with": statistics.median(with_slow),
                    "loss": 1 - statistics.median(one / other for one, other in zip(without, with_slow))})
    return out


def tables(result: dict[str, Any]) -> str:
    """A table of each shape's ways, and a line about the slow query, for people."""
    lines = []
    if result["throughput"]:
        lines.append(f"{'shape':>8} {'way':>11} {'tokens':>7} {'tokens/CPU s':>13} {'tokens/s':>9} "
                     f"{'ours is faster, CPU':>20} {'wall':>6} {'waits for SQL, %':>17} {'SQL meanwhile, %':>17} "
                     f"{'sync, s':>8}")
    for row in result["throughput"]:
        for name, way in row["ways"].items():
            speedup = row["speedup"].get(name, {"cpu": 1.0, "wall": 1.0})
            lines.append(f"{row['shape']:>8} {name:>11} {way['tokens']:7.0f} {way['cpu']:13.0f} {way['wall']:9.0f} "
                         f"{speedup['cpu']:20.2f} {speedup['wall']:6.2f} {100 * way['sql_wait']:17.1f} "
                         f"{100 * way['sql']:17.1f} {way['sync']:8.2f}")
    for slow in result["slow"]:
        lines.append(f"a query of {result['options']['slow_seconds']:g} s at {slow['shape']}, {slow['way']}: "
                     f"the others take {slow['with']:.2f} s instead of {slow['without']:.2f}, "
                     f"{100 * slow['loss']:.1f}% less throughput")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
