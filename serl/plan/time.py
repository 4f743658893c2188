"""Seconds of a step: from a run that was measured, from a throughput that is given, or from operations.

Of a step of q questions with N trajectories each, prompts of P tokens and R tokens behind them, S of these sampled:

    encoded E   shared prompts: q (P + N R)           each sequence whole: q N (P + R)
    pairs       of a query and a key it sees          q (P²/2 + N (R P + R²/2))       q N (P + R)²/2
    forward     2 · body · E + 4 · layers · heads · head size · pairs                 floating-point operations
    head        2 · vocabulary · width for each scored token; logits are made twice, so 4 times with a gradient
    update      3 forwards (4 with gradient checkpointing: arXiv 1604.06174); adapters: no gradient of the frozen
                weights, 2 (3)
    teacher     one forward: live, over what it adds (turns · hindsight + S a trajectory); another, over all of it
    reference   one forward of E

Seconds of these are operations / (GPUs · peak · MFU), of sampling by a roofline: a decoded token of c sequences at once
reads all weights and their keys and values from memory,

    (c: as many as are allowed, and as vLLM's keys and values have room for)

    max( (weights + c · context · bytes of keys and values) / (bandwidth · MBU),  2 · parameters · c / (peak · MFU) )

MFU and MBU, the shares of peak and bandwidth that are reached, are ASSUMPTIONS: dense training reaches 0.3 to 0.5
(PaLM, arXiv 2204.02311, appendix B), and this code's attention to shared prompts is no fused kernel. Sampling by the
policy itself (rollout.engine hf) starts each operation by itself and stays far below the roofline: measure it. Lengths
are those of the plan, by default the longest that the config allows; give typical ones (--prompt, --response) for a
typical step. Left out: groups of equal rewards (not encoded), grounding, evaluation.

    SQL         statements (turns of all trajectories) / (SQL_RATE · workers), while sampling goes on
    weights     written to a file and read by vLLM: 2 · bytes / DISK

With --run the seconds of each section of that run's steps (its metrics time/...) grow with the trajectories a step.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from serl.errors import InputError
from serl.io import read_jsonl
from serl.plan.parameters import Counts
from serl.plan.setting import BYTES, Setting

MFU, MBU = 0.3, 0.5
SQL_RATE = 1000.0  # light statements a second and worker, on a core of its own: `experiments/bench/sql.py` on Spider
DISK = 2e9  # bytes a second; an assumption
SECTIONS = ("rollout", "sql", "score", "teacher", "update", "sync", "prepare", "parts", "diagnose", "gate")


@dataclass(frozen=True)
class Rates:
    """What is given instead of assumed: tokens a second of all GPUs together."""

    sampled: float | None = None
    updated: float | None = None  # encoded by the update
    mfu: float = MFU
    mbu: float = MBU


@dataclass(frozen=True)
class Step:
    """Seconds by section; tokens and operations they were made from; which of them are measured or given."""

    seconds: dict[str, float]
    sampled: int
    encoded: int
    flops: dict[str, float]
    source: str

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def forward_flops(counts: Counts, tokens: float, pairs: float) -> float:
    return 2.0 * counts.body * tokens + 4.0 * counts.layers * counts.heads * counts.head_dim * pairs


def encoded(setting: Setting) -> tuple[int, float]:
    """Tokens that the update of a step encodes, and pairs of a query and a key."""
    prompt, own, q, n = setting.prompt, setting.response, setting.questions, setting.group
    if setting.shared:
        return q * (prompt + n * own), q * (prompt**2 / 2 + n * (own * prompt + own**2 / 2))
    return q * n * (prompt + own), q * n * (prompt + own) ** 2 / 2


def flops(counts: Counts, setting: Setting) -> dict[str, float]:
    """Floating-point operations of a step by section, on all GPUs."""
    tokens, pairs = encoded(setting)
    forward = forward_flops(counts, tokens, pairs)
    head = 2.0 * counts.vocabulary * counts.width * setting.trajectories * setting.sampled
    passes = (2 if setting.rank else 3) + setting.checkpointing
    added = setting.trajectories * (setting.turns * setting.hindsight + setting.sampled)
    longer = added * (setting.prompt + setting.response / 2)
    teacher = 0.0
    if setting.teacher != "none":
        teacher = head + forward_flops(counts, added, longer)
        if setting.teacher != "live":
            teacher += forward
    return {"update": passes * forward + 4 * head, "teacher": teacher,
            "reference": (forward + head) if setting.reference else 0.0}


def plan_step(counts: Counts, setting: Setting, rates: Rates, sql_workers: int) -> Step:
    """By operations, and by the rates that are given."""
    work, gpu = flops(counts, setting), setting.gpu
    peak = setting.gpus * gpu.flops * rates.mfu
    seconds = {name: operations / peak for name, operations in work.items() if operations}
    tokens, _ = encoded(setting)
    sampled = setting.trajectories * setting.sampled
    given = []
    if rates.updated:
        seconds["update"] = tokens / rates.updated
        given.append("update")
    seconds = {"rollout": sampled / rates.sampled if rates.sampled else sampling(counts, setting, rates), **seconds}
    if rates.sampled:
        given.append("rollout")
    if (sql := setting.trajectories * setting.turns / (SQL_RATE * sql_workers)) > seconds["rollout"]:
        seconds["waiting for SQL"] = sql - seconds["rollout"]
    if setting.sampler != "hf":
        seconds["weights to vLLM"] = 2 * counts.total * BYTES[setting.sampler_dtype] / DISK
    source = f"given: {', '.join(given)}; the rest by operations" if given else "by operations"
    return Step(seconds, sampled, tokens, work, source)


def sampling(counts: Counts, setting: Setting, rates: Rates) -> float:
    """Seconds to sample a step's trajectories, by the roofline; encoding prompts and observations is in it."""
    engines = max(1, setting.rollout_gpus // setting.tensor_parallel)
    own = -(-setting.trajectories // engines)
    at_once = min(own, at_most(counts, setting))
    weight = BYTES[setting.sampler_dtype if setting.sampler != "hf" else setting.dtype]
    gpus = setting.tensor_parallel if setting.sampler != "hf" else 1
    context = setting.prompt + setting.response / 2
    memory = (counts.total * weight + at_once * context * counts.kv_bytes(weight)) / (setting.gpu.bandwidth * rates.mbu)
    compute = 2.0 * counts.total * at_once / (setting.gpu.flops * rates.mfu)
    decoded = own * setting.sampled / at_once * max(memory, compute) / gpus
    read = setting.questions * setting.prompt + setting.trajectories * (setting.response - setting.sampled)
    return decoded + forward_flops(counts, read, read * context / 2) / (engines * gpus * setting.gpu.flops * rates.mfu)


def at_most(counts: Counts, setting: Setting) -> int:
    """Sequences that are decoded at once: as many as are allowed, and as vLLM has room for, prompts shared."""
    if setting.sampler == "hf":
        return setting.sequences
    room = setting.kv_cache * setting.tensor_parallel // counts.kv_bytes(BYTES[setting.sampler_dtype])
    return max(1, min(setting.sequences, int(room / (setting.prompt / setting.group + setting.response))))


def sql_workers_needed(setting: Setting, seconds: float) -> int:
    """Workers that answer a step's statements within the seconds that sampling takes."""
    return max(1, -(-int(setting.trajectories * setting.turns) // max(1, int(SQL_RATE * seconds))))


def measured_step(run: Path, setting: Setting) -> Step:
    """By the steps of a run folder, without its first one, which warms up."""
    rows = read_jsonl(run / "metrics.jsonl") if (run / "metrics.jsonl").is_file() else []
    rows = [row for row in rows if "time/step" in row and "tokens/sampled" in row]
    if len(rows) < 2:
        raise InputError(f"--run {run}: no metrics.jsonl with at least two steps; give the folder of a run")
    rows = rows[1:]
    per_step = {name: fmean(row.get(f"time/{name}", 0.0) for row in rows) for name in SECTIONS}
    per_step["other"] = max(0.0, fmean(row["time/step"] for row in rows) - sum(per_step.values()))
    factor = setting.trajectories / _trajectories(run)
    sampled = fmean(row["tokens/sampled"] for row in rows)
    return Step({name: value * factor for name, value in per_step.items() if value}, round(sampled * factor),
                encoded(setting)[0], {}, f"{len(rows)} steps of {run}, by trajectories: the model, the lengths and the "
                                         "devices are taken to be that run's")


def _trajectories(run: Path) -> int:
    from serl.config import load_config

    rollout = load_config(run / "config.yaml").rollout
    return rollout.questions * rollout.group_size


def rate(step: Step) -> dict[str, float]:
    """Tokens a second of what a step does, for people to compare."""
    rollout, update = step.seconds.get("rollout", 0.0), step.seconds.get("update", 0.0)
    return {"sampled": step.sampled / rollout if rollout else 0.0, "updated": step.encoded / update if update else 0.0}
