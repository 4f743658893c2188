"""What an update and its teacher cost: shared computation against plain padded batches, on the same rollouts.

    python experiments/bench/step.py [--shapes 1500/200/8,1500/200/8/4] [--repetitions 5] [--json]
    python experiments/bench/step.py --shapes "" --memory 1500/200/8          memory only

A shape is prompt/response/group, and turns if there are several. Each way does one update (forward, loss, backward,
clipping, AdamW at learning rate 0) of one group of random trajectories on one model with random weights:

    masked    the usual trainer's way: a padded batch with its mask, log-softmax over all response logits
    plain     the same without the mask, which a batch of equal lengths does not need
    one       the same, one trajectory at a time
    ours      `serl.train.update`
    live      ours with a teacher that is the student;  periodic: the teacher's own pass, with other weights

Process-CPU seconds, ways interleaved, after one repetition to warm up; ratios are medians of those of each repetition.
Memory is the peak of a process of its own that does this once, above what it held after a first, tiny one: model,
gradients, optimizer, the periodic teacher's weights. All ways give the same loss and gradient norm, or this stops.
"""

import argparse
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from experiments.bench.process import memory_mib
from experiments.bench.step_ways import TEACHERS, WAYS, Bench, Shape, make_samples, other_weights, teachers

SHAPES = "512/64/8,1500/200/8,3000/200/16,3000/64/8,1500/200/8/4"
TINY = Shape(16, 8, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="of the time measurement, with commas between; may be empty")
    parser.add_argument("--memory", default="1500/200/8", help="shape of the memory measurement; may be empty")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--memory-vocab", type=int, default=151_936)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hindsight", type=int, default=60, help="tokens of a turn's hindsight")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.add_argument("--one-way", help=argparse.SUPPRESS)  # of the memory measurement, in its own process
    args = parser.parse_args()
    if args.one_way:
        print(json.dumps(peak_memory(args)))
        return
    shapes = [Shape.of(text) for text in args.shapes.split(",") if text]
    with tqdm(total=len(shapes) * (args.repetitions + 1), desc="step", unit="repetition") as bar:
        measured = [measure(shape, args, bar.update) for shape in shapes]
    result = {"options": vars(args), "time": measured, "memory": measure_memory(args) if args.memory else {}}
    print(json.dumps(result) if args.json else tables(result))


def measure(shape: Shape, args: argparse.Namespace, passed: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """CPU seconds of every way, their ratios to ours, and the teacher's share of the plain update and of ours."""
    import torch

    torch.set_num_threads(args.threads)
    bench, samples = Bench(args.vocab, args), make_samples(shape, args.vocab)
    works: dict[str, Callable[[], Any]] = {way: lambda way=way: bench.update(way, samples) for way in WAYS}
    works |= teachers(bench, other_weights(bench.model), samples, args.hindsight)
    seconds, results = {name: [] for name in works}, {}
    for _ in range(args.repetitions + 1):
        for name, work in works.items():
            gc.collect()
            start = time.process_time()
            results[name] = work()
            seconds[name].append(time.process_time() - start)
        passed()
    check({way: results[way] for way in WAYS})
    return {"shape": str(shape), **summary({name: spent[1:] for name, spent in seconds.items()}),
            "tokens": sum(len(sample.trajectory) for sample in samples)}


def check(results: dict[str, tuple[float, float]]) -> None:
    """Stop if a way does not give ours' loss and gradient norm: then their times cannot be compared."""
    for way, found in results.items():
        if not all(math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5) for one, other in zip(found, results["ours"])):
            sys.exit(f"step.py: {way} gives (loss, gradient norm) {found}, ours {results['ours']}")


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Median seconds, ratios and shares, each of one repetition's pair."""

    def median(value: Callable[..., float], *names: str) -> float:
        return statistics.median(value(*each) for each in zip(*(seconds[name] for name in names)))

    out: dict[str, Any] = {"seconds": {name: statistics.median(spent) for name, spent in seconds.items()}}
    out["speedup"] = {way: median(lambda one, ours: one / ours, way, "ours") for way in WAYS[:-1]}
    out["teacher"] = {
        "live of plain": median(lambda live, ours, plain: (live - ours) / plain, "live", "ours", "plain"),
        "live of ours": median(lambda live, ours: (live - ours) / ours, "live", "ours"),
        "periodic of plain": median(lambda periodic, plain: periodic / plain, "periodic", "plain"),
        "periodic of ours": median(lambda periodic, ours: periodic / ours, "periodic", "ours")}
    return out


def measure_memory(args: argparse.Namespace) -> dict[str, Any]:
    """MiB of each way and teacher above model, gradients and optimizer, a process for each."""
    found = {}
    for way in (*WAYS, *TEACHERS):
        options = [f"--{name}={getattr(args, name.replace('-', '_'))}"
                   for name in ("memory", "memory-vocab", "hidden", "layers", "threads", "hindsight")]
        done = subprocess.run([sys.executable, __file__, f"--one-way={way}", *options], check=True,
                              stdout=subprocess.PIPE)
        found[way] = json.loads(done.stdout)
    mib = {way: value["mib"] for way, value in found.items()}
    return {"shape": args.memory, "vocab": args.memory_vocab, "mib": mib,
            "of masked": mib["ours"] / mib["masked"], "of one": mib["ours"] / mib["one"],
            "live of ours": mib["live"] / mib["ours"], "periodic of ours": mib["periodic"] / mib["ours"]}


def peak_memory(args: argparse.Namespace) -> dict[str, float]:
    """The memory measurement of one way, in this process."""
    import torch

    torch.set_num_threads(args.threads)
    bench, way = Bench(args.memory_vocab, args), args.one_way
    other = other_weights(bench.model) if way == "periodic" else None

    def work(shape: Shape) -> Callable[[], Any]:
        samples = make_samples(shape, args.memory_vocab)
        if way in TEACHERS:
            return teachers(bench, other, samples, args.hindsight)[way]
        return lambda: bench.update(way, samples)

    bench.update("ours", make_samples(TINY, args.memory_vocab))  # gradients and optimizer, also before a pass alone
    work(TINY)()
    measured = work(Shape.of(args.memory))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = memory_mib("VmRSS")
    measured()
    return {"mib": memory_mib("VmHWM") - before}


def tables(result: dict[str, Any]) -> str:
    """Two tables (speed-up, teacher) and a line about memory, for people."""
    lines = []
    if result["time"]:
        ways, shares = (" ".join(f"{name:>17}" for name in names) for names in (WAYS[:3], result["time"][0]["teacher"]))
        lines.append(f"{'shape':>15} {'ours, s':>9} {'tokens/s':>9}   speed-up over: {ways}   teacher, %: {shares}")
    for row in result["time"]:
        ours = row["seconds"]["ours"]
        lines.append(f"{row['shape']:>15} {ours:9.2f} {row['tokens'] / ours:9.0f}   {'':14} "
                     + " ".join(f"{row['speedup'][way]:17.2f}" for way in WAYS[:3])
                     + f"   {'':11} " + " ".join(f"{100 * share:17.1f}" for share in row["teacher"].values()))
    if memory := result["memory"]:
        lines.append(f"memory of one update at {memory['shape']}, V = {memory['vocab']}, MiB: "
                     + ", ".join(f"{way} {mib:.0f}" for way, mib in memory["mib"].items())
                     + f"; ours is {100 * memory['of masked']:.0f}% of masked, {100 * memory['of one']:.0f}% of one; "
                     f"with a live teacher it is {100 * memory['live of ours']:.0f}% of ours, and a periodic teacher's "
                     f"pass {100 * memory['periodic of ours']:.0f}%")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
