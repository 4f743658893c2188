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
Memory is the peak of a process of its own that does one update, above what it held after a first, tiny update: model,
gradients, optimizer. All ways give the same loss and gradient norm, or this stops.
"""

import argparse
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from experiments.bench.process import memory_mib

SHAPES = "512/64/8,1500/200/8,3000/200/16,3000/64/8,1500/200/8/4"
WAYS = ("masked", "plain", "one", "ours")
OBSERVATION = 12  # tokens between two actions


@dataclass(frozen=True)
class Shape:
    """Tokens of the prompt and of all that follows it, trajectories, actions a trajectory."""

    prompt: int
    response: int
    group: int
    turns: int = 1

    @classmethod
    def of(cls, text: str) -> "Shape":
        return cls(*map(int, text.split("/")))

    def __str__(self) -> str:
        return f"{self.prompt}/{self.response}/{self.group}" + (f"/{self.turns}" if self.turns > 1 else "")


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


def make_model(vocabulary: int, args: argparse.Namespace):
    """A Qwen3 with tied embeddings, as the embedded model is, and random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocabulary, hidden_size=args.hidden, intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers, num_attention_heads=max(2, args.hidden // 64),
        num_key_value_heads=max(1, args.hidden // 128), head_dim=64, tie_word_embeddings=True,
        max_position_embeddings=8192, bos_token_id=None, eos_token_id=2, pad_token_id=0))


def make_samples(shape: Shape, vocabulary: int) -> list:
    """A group of trajectories with advantages of both signs; actions of equal length, observations between them."""
    import torch

    from serl.agent.dialects import Action, Kind
    from serl.agent.trajectory import Trajectory, Turn
    from serl.reward.panel import Reward
    from serl.train.samples import Sample

    generator = torch.Generator().manual_seed(1)

    def ids(count: int) -> list[int]:
        return torch.randint(3, vocabulary, (count,), generator=generator).tolist()

    prompt, samples = ids(shape.prompt), []
    for number in range(shape.group):
        trajectory = Trajectory()
        trajectory.append_context(prompt)
        sampled = shape.response - OBSERVATION * (shape.turns - 1)
        for turn in range(shape.turns):
            if turn:
                trajectory.append_context(ids(OBSERVATION))
            state = (0, len(trajectory))
            size = sampled * (turn + 1) // shape.turns - sampled * turn // shape.turns
            action = trajectory.append_sampled(ids(size), [-1.0] * size, [1] * size)
            trajectory.turns.append(Turn(state, action, action, state[1] - 5, Action(Kind.SQL, ""), ""))
        samples.append(Sample.of(trajectory, Reward(0.0, {}, False), 1.0 if number % 2 else -0.7))
    return samples


def branches(samples: Sequence, args: argparse.Namespace) -> list[tuple]:
    """For each sample, what its teacher has to score: (turn and its hindsight, tail), one for each turn."""
    import torch

    from serl.hindsight.branches import Branch
    from serl.hindsight.context import Hindsight, teacher_input
    from serl.train.scoring import Tail

    generator = torch.Generator().manual_seed(2)
    out = []
    for index, sample in enumerate(samples):
        own = []
        for number, turn in enumerate(sample.trajectory.turns):
            hindsight = Hindsight(tuple(torch.randint(3, args.vocab, (args.hindsight,), generator=generator).tolist()))
            own.append((Branch(index, number, turn, hindsight),
                        Tail(*teacher_input(sample.trajectory, turn, hindsight),
                             sample.trajectory.turns[0].splice_at)))
        out.append(tuple(own))
    return out


def usual_logprobs(model, samples: Sequence, mask: bool) -> list:
    """Log-probs of everything behind the prompt, by a padded batch and a log-softmax over all its logits."""
    import torch

    from serl.ragged import pad

    rows = [sample.trajectory.token_ids for sample in samples]
    first, last = samples[0].first, max(map(len, rows))
    # One column of padding: a trainer's batch is ragged, and the library drops a mask that masks nothing.
    ids_BL = pad([[*row, *[0] * mask] for row in rows], 0, torch.long, model.device)
    mask_BL = pad([[1] * len(row) + [0] * mask for row in rows], 0, torch.long, model.device) if mask else None
    logits_BRV = model(input_ids=ids_BL, attention_mask=mask_BL, use_cache=False,
                       logits_to_keep=ids_BL.shape[1] - first + 1).logits[:, : last - first]
    logp_BR = logits_BRV.log_softmax(-1).gather(-1, ids_BL[:, first: last, None])[..., 0]
    return [logp_R[: len(row) - first] for logp_R, row in zip(logp_BR, rows)]


class Bench:
    """One model and the ways to update it."""

    def __init__(self, vocabulary: int, args: argparse.Namespace) -> None:
        from serl.config import Config, HindsightConfig, TeacherConfig, TrainConfig
        from serl.train.engine import TorchEngine

        self.model = make_model(vocabulary, args)
        self.engine = TorchEngine(self.model, 0.0, 0.0, 1.0, lambda step: 1.0)
        self.config = Config(hindsight=HindsightConfig(teacher=TeacherConfig("live")),
                             train=TrainConfig(micro_tokens=1 << 30))

    def update(self, way: str, samples: Sequence) -> tuple[float, float]:
        """One update; returns its loss and gradient norm."""
        from serl.train.update import denominator, loss_of, update, weigh

        if way == "ours":
            metrics, _ = update(self.engine, samples, 0.5, self.config)
            return metrics["loss"], metrics["grad_norm"]
        total, loss_sum = denominator(samples, self.config.train.reduction), 0.0
        self.model.train()
        self.engine.zero_grad()
        size = 1 if way == "one" else len(samples)
        for start in range(0, len(samples), size):
            batch = samples[start: start + size]
            logps = usual_logprobs(self.model, batch, way == "masked")
            batch = [weigh(sample, sample.aligned(logp), 0.0, self.config.hindsight)
                     for sample, logp in zip(batch, logps)]
            loss, _ = loss_of(batch, logps, self.config, total)
            self.engine.backward(loss)
            loss_sum += loss.item()
        return loss_sum, self.engine.step()


def measure(shape: Shape, args: argparse.Namespace, passed: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """CPU seconds of every way, their ratios to ours, and the teacher's share of the plain update and of ours."""
    import copy
    from dataclasses import replace

    import torch

    from serl.train.scoring import score

    torch.set_num_threads(args.threads)
    bench, samples = Bench(args.vocab, args), make_samples(shape, args.vocab)
    other = copy.deepcopy(bench.model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter *= 1.01
    asked = branches(samples, args)
    hinted = [replace(sample, asked=own) for sample, own in zip(samples, asked)]
    works: dict[str, Callable[[], Any]] = {way: lambda way=way: bench.update(way, samples) for way in WAYS}
    tails = [tail for own in asked for _, tail in own]
    works |= {"live": lambda: bench.update("ours", hinted),
              "periodic": lambda: score(other, tails, 1 << 30, 1.0, share=True)}
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
    """MiB of one update above model, gradients and optimizer, a process for each way."""
    found = {}
    for way in WAYS:
        options = [f"--{name}={getattr(args, name.replace('-', '_'))}"
                   for name in ("memory", "memory-vocab", "hidden", "layers", "threads")]
        done = subprocess.run([sys.executable, __file__, f"--one-way={way}", *options], check=True,
                              stdout=subprocess.PIPE)
        found[way] = json.loads(done.stdout)
    mib = {way: value["mib"] for way, value in found.items()}
    return {"shape": args.memory, "vocab": args.memory_vocab, "mib": mib,
            "of masked": mib["ours"] / mib["masked"], "of one": mib["ours"] / mib["one"]}


def peak_memory(args: argparse.Namespace) -> dict[str, float]:
    """The memory measurement of one way, in this process."""
    import torch

    torch.set_num_threads(args.threads)
    bench = Bench(args.memory_vocab, args)
    bench.update(args.one_way, make_samples(Shape(16, 8, 2), args.memory_vocab))
    samples = make_samples(Shape.of(args.memory), args.memory_vocab)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = memory_mib("VmRSS")
    bench.update(args.one_way, samples)
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
                     + f"; ours is {100 * memory['of masked']:.0f}% of masked, {100 * memory['of one']:.0f}% of one")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
