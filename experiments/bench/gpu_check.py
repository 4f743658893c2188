"""One GPU, eight minutes: is what was measured on a CPU true there, and is `serl plan` right?

    PYTHONPATH=. python experiments/bench/gpu_check.py [--model Qwen2.5-1.5B] [--json FILE]
    PYTHONPATH=. python experiments/bench/gpu_check.py --tiny                 anywhere, in seconds: that it runs

Needs PyTorch and transformers, and no weights: the model has a real one's shape and random weights, its last norm
scaled so that its distributions are about as peaked as a trained one's. Four parts:

    step      one update of one group in bfloat16: `shared` (prompt once, logits in chunks), `live` (the same with what
              a live teacher reads), `plain` (a padded batch), `one` (a trajectory at a time). Seconds, tokens a second,
              share of the GPU's peak by the operations of `serl.plan.time`; ways interleaved, medians
    logprobs  memory of the log-probs of many tokens at a vocabulary of 151,936, in chunks and by a log-softmax of all
              logits, forward and backward
    gaps      the teacher's gap Δ (hindsight inserted, minus without) of the same tokens in bfloat16 against float32:
              its error beside its size, and how often the clipped weight's side is another one; and the noise of two
              ways to compute the same log-prob
    plan      peak memory of the update as planned and as it was, shared, plain, and with layers computed again; what
              the allocator holds besides, and the context

What runs out of memory or of time (--seconds) is reported as such, and the rest goes on.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from experiments.bench.device import clear, guarded, peak, reset_peak
from experiments.bench.step import Shape

WAYS = ("shared", "live", "plain", "one")
PEAKED = 6.0  # factor of the last norm's weight
HINDSIGHT = 60  # tokens
TINY = {"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": True}
BOUND = math.log(1.2), math.log(0.8)  # of the gap where the weight is clipped, by eps 0.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen2.5-1.5B", help="a name that `serl plan` knows (default: %(default)s)")
    parser.add_argument("--shapes", default="1500/200/8,3000/200/16,1500/1000/8", help="prompt/response/group, ...")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=440.0, help="after which nothing new is begun")
    parser.add_argument("--tiny", action="store_true", help="a model of two small layers, also on a CPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    args = parser.parse_args()
    result = check(args)
    print(table(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


def check(args: argparse.Namespace) -> dict[str, Any]:
    """All parts."""
    import torch

    from serl.plan.parameters import config_of_fields, read_config

    begun = time.monotonic()
    if not args.tiny and not torch.cuda.is_available():
        sys.exit("gpu_check.py: no GPU here; --tiny runs on a CPU")
    if args.tiny:
        args.shapes, args.repetitions = "80/12/4", 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    config = config_of_fields(TINY) if args.tiny else read_config(args.model)
    shapes = [Shape.of(text) for text in args.shapes.split(",")]
    parts: dict[str, Callable[[], Any]] = {
        "logprobs": lambda: logprob_memory(config, device, dtype, 64 if args.tiny else 4096),
        "gaps": lambda: gaps(config, device, shapes[0]),
        "step": lambda: steps(config, device, dtype, shapes, args, begun),
        "plan": lambda: plan_against(config, device, dtype, shapes[0])}
    result: dict[str, Any] = {"model": "tiny" if args.tiny else args.model, "torch": torch.__version__,
                              "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    for name, work in parts.items():
        result[name] = guarded(work) if time.monotonic() - begun < args.seconds else {"failed": "no time left"}
        clear()
        print(f"{name}: {time.monotonic() - begun:.0f} s since the start", file=sys.stderr)
    return result | {"seconds": time.monotonic() - begun}


def make_model(config, device: str, dtype):
    """Random weights, the same for each type; in eval mode, as an update has it."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    with torch.no_grad():
        model.base_model.norm.weight *= PEAKED
    return model.to(dtype).eval()


def tails_of(config, shape: Shape) -> list:
    """A group, the last of a token less than the others: of a batch of equal lengths the library drops the mask."""
    from serl.plan.made_up import trajectories

    *tails, last = trajectories(shape.prompt, shape.response, shape.response, shape.group, 1, config.vocab_size, True)
    return [*tails, replace(last, ids=last.ids[:-1], scored=last.scored[:-1])]


def steps(config, device: str, dtype, shapes: list[Shape], args: argparse.Namespace, begun: float) -> list[dict]:
    """An update, each way and shape: seconds, gradient norm, peak bytes, or why there are none."""
    from serl.train.engine import TorchEngine

    engine = TorchEngine(make_model(config, device, dtype), 0.0, 0.0, 1.0, lambda step: 1.0)
    rows = []
    for shape in shapes:
        tails = tails_of(config, shape)
        found: dict[str, list[dict]] = {way: [] for way in WAYS}
        for _ in range(args.repetitions + 1):
            for way, own in found.items():
                if own and "failed" in own[-1] or time.monotonic() - begun > args.seconds:
                    continue
                own.append(guarded(partial(update, engine, tails, way, device)))
        for way, own in found.items():
            good = [each for each in own[1:] if "failed" not in each]  # the first one warms up
            row = {name: statistics.median(each[name] for each in good) for name in good[0]} if good else {
                "failed": own[-1].get("failed", "no time left") if own else "no time left"}
            more = speed(config, shape, way, row["seconds"], device) if good else {}
            rows.append({"shape": str(shape), "way": way} | row | more)
    return rows


def update(engine, tails: list, way: str, device: str, keep: bool = False) -> dict[str, float]:
    """One optimizer step of a policy gradient with advantages of both signs; `keep` adds to the gradients there are."""
    from serl.plan.made_up import branches
    from serl.train.scoring import logprobs_with_branches

    if not keep:
        engine.zero_grad()
    reset_peak(device)
    start = time.perf_counter()
    total = sum(len(tail.targets) for tail in tails)
    size = 1 if way == "one" else len(tails)
    for first in range(0, len(tails), size):
        batch = tails[first: first + size]
        told = [branches(tail, 1, HINDSIGHT, engine.model.config.vocab_size) if way == "live" else () for tail in batch]
        found, _ = logprobs_with_branches(engine.model, batch, told, 1.0, way in ("shared", "live"))
        engine.backward(-sum((1.0 if (first + number) % 2 else -0.7) * (logp - logp.detach()).exp().sum()
                             for number, logp in enumerate(found)) / total)
        del found
    norm, most = engine.step(), peak(device)  # which waits for the GPU
    return {"seconds": time.perf_counter() - start, "gradient norm": norm, "peak bytes": most}


def speed(config, shape: Shape, way: str, seconds: float, device: str) -> dict[str, float]:
    """Tokens of trajectories a second, and, for a GPU that is known, the share of its peak."""
    import torch

    from serl.plan.known import gpus
    from serl.plan.parameters import count
    from serl.plan.time import flops

    out = {"tokens a second": shape.group * (shape.prompt + shape.response) / seconds}
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    if (card := next((card for key, card in gpus().items() if key in name), None)) is not None:
        setting = setting_for(shape, shared=way in ("shared", "live"), teacher="live" if way == "live" else "none")
        work = flops(count(config), setting)
        out["share of the GPU's peak"] = (work["update"] + work["teacher"]) / seconds / card.flops
    return out


def logprob_memory(config, device: str, dtype, tokens: int) -> dict[str, Any]:
    """Peak bytes above the operands', and seconds, of log-probs with their gradients."""
    import torch

    from serl.fused_head import token_logprobs

    torch.manual_seed(0)
    vocabulary, width = config.vocab_size, config.hidden_size
    head = torch.nn.Linear(width, vocabulary, bias=False, device=device, dtype=dtype)
    target_N = torch.randint(vocabulary, (tokens,), device=device)

    def chunked(hidden_ND):
        return token_logprobs(hidden_ND, head, target_N, 1.0)

    def usual(hidden_ND):
        return head(hidden_ND).float().log_softmax(-1).gather(-1, target_N[:, None])[:, 0]

    def work(way) -> dict[str, float]:
        hidden_ND = torch.randn(tokens, width, device=device, dtype=dtype).requires_grad_()
        head.weight.grad = torch.zeros_like(head.weight)
        before, start = reset_peak(device), time.perf_counter()
        way(hidden_ND).sum().backward()
        return {"bytes": peak(device) - before, "seconds": time.perf_counter() - start}

    # Twice each: the first time loads what is loaded on first use.
    return {"tokens": tokens, "vocabulary": vocabulary} | {
        way.__name__: [guarded(partial(work, way)) for _ in range(2)][1] for way in (chunked, usual)}


def gaps(config, device: str, shape: Shape) -> dict[str, Any]:
    """The gap of the same tokens in both precisions, and the noise of one that has none."""
    import torch

    from serl.plan.made_up import branches
    from serl.train.scoring import score

    tails = tails_of(config, shape)
    told = [branches(tail, 1, HINDSIGHT, config.vocab_size)[0] for tail in tails]
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        model = make_model(config, device, dtype)
        student, plain, teacher = (torch.cat(score(model, batch, 1 << 16, 1.0, share)).double()
                                   for batch, share in ((tails, True), (tails, False), (told, True)))
        found[name] = {"gap": teacher - student, "noise": student - plain, "student": student}
        del model
    true, short = found["float32"]["gap"], found["bfloat16"]["gap"]
    side = [(gap > BOUND[0]).int() - (gap < BOUND[1]).int() for gap in (true, short)]
    return {"tokens": len(true), "mean |gap|": true.abs().mean().item(),
            "mean |error|": (short - true).abs().mean().item(), "worst error": (short - true).abs().max().item(),
            "another side of the clip": (side[0] != side[1]).double().mean().item(),
            "log-prob error": (found["bfloat16"]["student"] - found["float32"]["student"]).abs().mean().item(),
            **{f"noise of shared, {name}": each["noise"].abs().mean().item() for name, each in found.items()}}


def setting_for(shape: Shape, **fields):
    """The plan's setting of one update of one group by a model in bfloat16."""
    from serl.config import Config
    from serl.plan.known import gpus
    from serl.plan.setting import Asked, setting_of

    setting = setting_of(Config(), Asked(1, gpus()["H100"], shape.prompt, shape.response))
    base = {"sampled": shape.response, "turns": 1, "group": shape.group, "questions": 1, "micro_tokens": 1 << 30,
            "teacher": "none", "hindsight": HINDSIGHT, "dtype": "bfloat16"}
    return replace(setting, **base | fields)


def plan_against(config, device: str, dtype, shape: Shape) -> list[dict]:
    """Peak of an update with gradients that are there before, as planned, and as it was."""
    ways = {"shared": {"shared": True}, "plain": {"shared": False},
            "computed again": {"shared": True, "checkpointing": True}}
    rows = []
    for way, fields in ways.items():
        setting = setting_for(shape, device=device, dtype=str(dtype).removeprefix("torch."), **fields)
        rows.append({"way": way} | guarded(partial(compare, config, device, dtype, shape, setting)))
        clear()
    return rows


def compare(config, device: str, dtype, shape: Shape, setting) -> dict[str, Any]:
    """One way of that."""
    import torch

    from serl.plan.memory import plan_memory
    from serl.plan.parameters import count
    from serl.recompute import recompute_layers
    from serl.train.engine import TorchEngine

    skipped = ("framework", "fragmentation")  # which the allocator does not count
    parts = [part for part in plan_memory(config, count(config), setting).parts if part.name not in skipped]
    planned = {phase: sum(part.bytes for part in parts if phase in part.phases) for phase in ("update", "step")}
    before = reset_peak(device)
    model = make_model(config, device, dtype)
    if setting.checkpointing:
        recompute_layers(model)
    engine, tails = TorchEngine(model, 0.0, 0.0, 1.0, lambda step: 1.0), tails_of(config, shape)
    way = "shared" if setting.shared else "plain"
    update(engine, tails, way, device)  # the optimizer has its moments then
    measured = update(engine, tails, way, device, keep=True)["peak bytes"] - before
    out = {"planned": max(planned.values()), "measured": measured, **{f"planned, {k}": v for k, v in planned.items()}}
    if device == "cuda":
        (free, total), held = torch.cuda.mem_get_info(), torch.cuda.memory_reserved()
        out |= {"allocator holds": torch.cuda.max_memory_reserved(), "besides it": total - free - held}
    return out


def table(result: dict[str, Any]) -> str:
    """For people."""
    rows = [f"{name}: {_shown(row)}" for name in ("step", "logprobs", "gaps", "plan")
            for row in (result[name] if isinstance(result[name], list) else [result[name]])]
    head = f"{result['model']} on {result['device']}, torch {result['torch']}, {result['seconds']:.0f} s"
    return "\n".join([head, *rows])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} ({_shown(each)})" if isinstance(each, dict) else f"{key} {_shown(each)}"
                         for key, each in value.items())
    if isinstance(value, (int, float)) and value >= 2**20:
        return f"{value / 2**30:.2f} GiB"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
