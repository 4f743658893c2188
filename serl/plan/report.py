"""A plan as text and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from serl.plan.fit import Proposal
from serl.plan.known import GIB
from serl.plan.memory import PHASES, Memory, Part
from serl.plan.parameters import Counts
from serl.plan.setting import Setting
from serl.plan.time import Step, rate


@dataclass(frozen=True)
class Plan:
    """Everything that `serl plan` found out. `stages` are by ZeRO stage; `chosen` is the setting's own."""

    model: str
    counts: Counts
    setting: Setting
    stages: dict[int, Memory]
    engine: tuple[Part, ...]  # of a GPU that only samples; empty where there is none
    proposals: Sequence[Proposal]
    step: Step
    sql_workers: int
    sql_needed: int

    @property
    def chosen(self) -> Memory:
        return self.stages[self.setting.zero]

    @property
    def fits(self) -> bool:
        return self.chosen.fits and sum(part.bytes for part in self.engine) <= self.setting.gpu.memory


def to_json(plan: Plan) -> dict[str, Any]:
    """All figures, in bytes and seconds."""
    setting = asdict(plan.setting)
    return {
        "model": plan.model, "parameters": asdict(plan.counts) | {"body": plan.counts.body}, "setting": setting,
        "micro_batch": asdict(plan.chosen.micro), "fits": plan.fits,
        "zero": {str(stage): _memory(memory) for stage, memory in plan.stages.items()},
        "rollout_gpu": {part.name: part.bytes for part in plan.engine},
        "proposals": [{"changes": list(proposal.texts), **_memory(proposal.memory)} for proposal in plan.proposals],
        "step": asdict(plan.step) | {"total": plan.step.total, "tokens_per_second": dict(rate(plan.step))},
        "sql_workers": {"planned": plan.sql_workers, "needed": plan.sql_needed},
    }


def to_text(plan: Plan) -> str:
    """For people: what was planned, memory by ZeRO stage, what would fit, time."""
    return "\n\n".join(part for part in (_head(plan), _table(plan), _engine(plan), _verdict(plan), _time(plan)) if part)


def _memory(memory: Memory) -> dict[str, Any]:
    return {"gpu": {part.name: part.bytes for part in memory.parts},
            "host": {part.name: part.bytes for part in memory.host},
            "phases": {phase: memory.of(phase) for phase in PHASES}, "peak": memory.peak, "phase": memory.phase,
            "fits": memory.fits}


def _head(plan: Plan) -> str:
    counts, setting, micro = plan.counts, plan.setting, plan.chosen.micro
    trained = f"; {counts.trained / 1e6:,.1f} M trained (rank {setting.rank})" if setting.rank else ""
    kv = counts.kv_bytes(2 if setting.short else 4) / 1024
    return "\n".join([
        f"{plan.model}: {counts.total:,} parameters, {counts.body:,} without embedding and head{trained}; "
        f"{kv:,.0f} KiB of keys and values a token",
        f"{setting.gpus} × {setting.gpu.name} ({setting.gpu.memory / GIB:.1f} GiB), {setting.dtype}, {setting.engine}"
        f"{f', ZeRO-{setting.zero}' if setting.zero else ''}, offload {setting.offload}, sampled "
        + {"hf": "by the policy itself", "colocated": "by vLLM on the same GPUs",
           "elsewhere": f"by vLLM on {setting.rollout_gpus} others"}[setting.sampler],
        f"{setting.questions} questions × {setting.group} trajectories, prompts of {setting.prompt:,} tokens, "
        f"{setting.response:,} behind them ({setting.sampled:,} sampled, {setting.turns} turns)",
        f"update: {micro.count} micro-batches on a GPU, the largest of {micro.trajectories} trajectories, "
        f"{micro.tokens:,} tokens encoded" + (", layers computed again" if setting.checkpointing else "")])


def _table(plan: Plan) -> str:
    names = list(dict.fromkeys(part.name for memory in plan.stages.values() for part in memory.parts))
    columns = list(plan.stages.values())
    head = [f"ZeRO {stage}{'*' if stage == plan.setting.zero and len(columns) > 1 else ''}" for stage in plan.stages]
    lines = [_row("GiB of a GPU", head)]
    for name in names:
        lines.append(_row(name, [_gib(sum(part.bytes for part in memory.parts if part.name == name))
                                 for memory in columns]))
    lines += [_row(f"in {phase}", [_gib(memory.of(phase)) for memory in columns]) for phase in PHASES]
    lines.append(_row("most", [_gib(memory.peak) for memory in columns]))
    lines.append(_row(f"fits {plan.setting.gpu.memory / GIB:.1f}", ["yes" if memory.fits else "no"
                                                                   for memory in columns]))
    if any(memory.host for memory in columns):
        lines.append(_row("host, for each GPU", [_gib(sum(part.bytes for part in memory.host)) for memory in columns]))
    return "\n".join(lines)


def _engine(plan: Plan) -> str:
    if not plan.engine:
        return ""
    total = sum(part.bytes for part in plan.engine)
    parts = ", ".join(f"{part.name} {part.bytes / GIB:.1f}" for part in plan.engine)
    room = f"room for {plan.engine[1].bytes * plan.setting.tensor_parallel // _kv(plan):,} tokens"
    return (f"a GPU that samples: {total / GIB:.1f} GiB ({parts}), {room}; "
            f"{'fits' if total <= plan.setting.gpu.memory else 'does not fit'}")


def _kv(plan: Plan) -> int:
    return plan.counts.kv_bytes(2 if plan.setting.sampler_dtype == "bfloat16" else 4)


def _verdict(plan: Plan) -> str:
    if plan.chosen.fits:
        return ""
    over = (plan.chosen.peak - plan.setting.gpu.memory) / GIB
    lines = [f"does not fit: {over:.1f} GiB too much in {plan.chosen.phase}; what would, the cheapest first:"]
    lines += [f"  {' '.join(proposal.texts)}: {proposal.memory.peak / GIB:.1f} GiB" for proposal in plan.proposals]
    return "\n".join(lines if plan.proposals else [*lines, "  nothing that is known here; take a smaller model"])


def _time(plan: Plan) -> str:
    step = plan.step
    parts = ", ".join(f"{name} {seconds:,.1f}" for name, seconds in step.seconds.items())
    rates = rate(step)
    lines = [f"a step: {step.total:,.0f} s ({parts}), {step.source}",
             f"tokens a second: {rates['sampled']:,.0f} sampled, {rates['updated']:,.0f} encoded by the update"]
    statements = plan.setting.trajectories * plan.setting.turns
    lines.append(f"SQL: {statements:,} statements a step; sql.workers is {plan.sql_workers}, {plan.sql_needed} keep up "
                 "with sampling")
    return "\n".join(lines)


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:24}" + "".join(f"{cell:>9}" for cell in cells)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}" if size else "-"
