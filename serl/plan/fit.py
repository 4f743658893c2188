"""What to change where a run does not fit: the cheapest changes first, alone, then two or three together.

Cheap is what costs little time and changes nothing that is learned; dear what changes the method (a live teacher,
adapters) or the bill (more GPUs). Each other micro-batch takes seconds to count; after TRIED of them, only changes that
leave it as one of these are looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from serl.plan.memory import Memory, least, plan_memory
from serl.plan.micro import Work
from serl.plan.parameters import Counts, count
from serl.plan.setting import Setting, sharing

ADAPTER = 32  # rank of the adapters that are proposed
MOST_GPUS = 1024
ENOUGH = 3  # proposals
TRIED = 8  # micro-batches


@dataclass(frozen=True)
class Change:
    """What to set, a group of which only one can be chosen, what it costs (no unit), and the setting's fields."""

    text: str
    group: str
    cost: int
    fields: dict


@dataclass(frozen=True)
class Proposal:
    """Changes after which a run fits."""

    texts: tuple[str, ...]
    memory: Memory


def changes(setting: Setting) -> list[Change]:
    """All that may help a setting."""
    found = []

    def offer(condition: bool, text: str, group: str, cost: int, **fields) -> None:
        if condition:
            found.append(Change(text, group, cost, fields))

    offer(setting.sampler == "colocated" and not setting.sleep, "--rollout.vllm.sleep true", "sleep", 1, sleep=True)
    offer(not setting.short, "--model.dtype bfloat16", "dtype", 1, dtype="bfloat16", sampler_dtype="bfloat16")
    offer(not setting.shared, "--model.shared_prefix true", "shared", 1, shared=True)
    offer(setting.shared and not setting.rank, "--model.shared_prefix false", "shared", 9, shared=False)
    whole = setting.prompt + setting.group * (setting.response + 1)  # a prompt's last token is each row's own
    one = setting.prompt + setting.response
    offer(whole < setting.micro_tokens, f"--train.micro_tokens {whole}", "micro", 2, micro_tokens=whole)
    offer(one < setting.micro_tokens, f"--train.micro_tokens {one}", "micro", 5, micro_tokens=one)
    within = setting.teacher == "live" and setting.shared and not setting.score_first
    for stage in range(setting.zero + 1, 4):
        if setting.gpus > 1 and not (stage == 3 and setting.overlap):
            offer(True, zero(stage, within), "zero", 2 + stage, **sharing(setting, stage))
    offer(not setting.checkpointing, "--model.gradient_checkpointing true", "checkpointing", 5, checkpointing=True)
    offer(setting.zero >= 1 and setting.offload == "none", "--engine.offload optimizer", "offload", 8,
          offload="optimizer")
    offer(setting.zero == 0, f"{zero(1, within)} --engine.offload optimizer", "zero", 9,
          **sharing(setting, 1), offload="optimizer")
    offer(setting.teacher in ("periodic", "ema", "frozen"),
          "--hindsight.teacher.mode live --train.score_first true", "teacher", 10, teacher="live", score_first=True)
    offer(not setting.rank, f"--model.lora.rank {ADAPTER}", "adapters", 12, rank=ADAPTER)
    gpus, cost = setting.gpus, 15
    while gpus < MOST_GPUS:
        gpus, cost = gpus * 2, cost + 5
        fields = {"gpus": gpus, **sharing(setting, 3)}
        if setting.sampler != "elsewhere":
            fields["rollout_gpus"] = gpus
        offer(not setting.overlap, f"--gpus {gpus} {zero(3, within)}", "zero", cost, **fields)
    return found


def zero(stage: int, within: bool) -> str:
    """How a stage is said; `within`: a teacher is asked in the update, which from stage 2 on cannot be."""
    return f"--engine.kind deepspeed --engine.zero {stage}" + " --train.score_first true" * (within and stage >= 2)


def proposals(config, counts: Counts, setting: Setting) -> list[Proposal]:
    """At most ENOUGH ways to fit, the cheapest first; none contains another one."""
    found: list[tuple[frozenset[str], Proposal]] = []
    tried: set[Work] = set()
    for chosen in _by_cost(changes(setting)):
        texts = frozenset(change.text for change in chosen)
        if any(known <= texts for known, _ in found):
            continue
        fields = {name: value for change in chosen for name, value in change.fields.items()}
        changed = replace(setting, **fields)
        own = count(config, changed.rank, changed.targets) if changed.rank != setting.rank else counts
        if least(own, changed) > changed.gpu.memory:
            continue
        work = Work.of(changed)
        if work not in tried and len(tried) == TRIED:
            continue
        tried.add(work)
        memory = plan_memory(config, own, changed)
        if memory.fits:
            found.append((texts, Proposal(tuple(change.text for change in chosen), memory)))
        if len(found) == ENOUGH:
            break
    return [proposal for _, proposal in found]


def _by_cost(offered: list[Change]) -> Iterator[tuple[Change, ...]]:
    several = [chosen for size in (1, 2, 3) for chosen in combinations(offered, size)
               if len({change.group for change in chosen}) == size]
    yield from sorted(several, key=lambda chosen: (sum(change.cost for change in chosen), len(chosen)))
