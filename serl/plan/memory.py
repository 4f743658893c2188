"""All parts of one GPU's memory, and in which phase of a step each is there.

Ψ parameters, t of them trained, N GPUs, w bytes of a weight (float32 4, bfloat16 2):

    weights     w Ψ                                                ZeRO-3: / N
    gradients   4 t   summed in float32                            ZeRO-2 and 3: / N
    optimizer   8 t   AdamW's two moments                          ZeRO-1, 2, 3: / N
    masters     4 t   float32 copies; PyTorch: of 16-bit weights   ZeRO-1, 2, 3: / N

The ZeRO paper (arXiv 1910.02054) has 16-bit gradients, 2 + 2 + 12 = 16 bytes; in float32 they make 18. PyTorch's stay
until the next update, DeepSpeed's are gone after a step. Adapters are float32: 4 of weights. Offload
moves optimizer, masters and gradients, or these and the weights, to the host's memory.

    teacher, reference   w Ψ each, none for a live teacher; adapters: 4 t            ZeRO-3: / N
                         an ema of 16-bit weights has its mean in float32 besides
    sampling ahead       w Ψ (rollout.overlap)
    activations          what a micro-batch keeps for its backward pass, counted (`serl.plan.micro`)
    workspace            what the backward pass and the chunk of logits need besides, counted; where prompts are shared,
                         gradients of all weights in it, w t, which wait for those of the other pass (`serl.plan.depth`)
    stepping             AdamW of several tensors at once: 4 t; a CPU's goes by one: twice the largest, 4 bytes each
                         DeepSpeed: weights are one flat tensor, and gradients are put into one besides, 4 t / N
                         PyTorch, several GPUs: what is summed at once, and one gradient as it was, if that is more
    keys and values      2 · layers · key heads · head size · bytes a token (`serl.plan.parameters`); the policy itself:
                         questions' prompts once, and what follows in each row; vLLM: rollout.vllm.kv_cache_gib
    logits of rows       where the policy itself samples: 3 tensors of float32, rows · vocabulary
    vLLM                 its weights, and VLLM besides; asleep, only the latter stays
    buffers              DeepSpeed: BUCKET float32 elements of gradients, which are summed at once
    gathered             ZeRO-3: the largest part, and its gradient
    framework            CONTEXT, and NCCL with several GPUs; FRAGMENTED of activations and workspace

VLLM, CONTEXT, NCCL and FRAGMENTED are rules of thumb, not measured with this code: `experiments/bench/gpu_check.py`
prints what they are on a GPU. Phases: rollout, update (its largest micro-batch), step (the optimizer's). Passes of
teacher and reference keep nothing for a backward pass and stay below the update; a live teacher's is in it.

All this is tensors: what an allocator keeps of memory that was given back is FRAGMENTED on a GPU and nothing on a CPU,
where it depends on the system (`experiments/bench/plan.py` measures both).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from serl.plan.known import GIB
from serl.plan.micro import MicroBatch, micro_batch
from serl.plan.parameters import Counts
from serl.plan.setting import BYTES, Setting, sharing

PHASES = ("rollout", "update", "step")
CONTEXT, NCCL, VLLM = GIB // 2, GIB // 2, 2 * GIB
FRAGMENTED = 0.05


@dataclass(frozen=True)
class Part:
    """Bytes of a GPU, or of the host for each GPU, in some phases."""

    name: str
    bytes: int
    phases: tuple[str, ...] = PHASES


@dataclass(frozen=True)
class Memory:
    """All parts. `micro` says what the update was counted on."""

    setting: Setting
    parts: tuple[Part, ...]
    host: tuple[Part, ...]
    micro: MicroBatch

    def of(self, phase: str) -> int:
        return sum(part.bytes for part in self.parts if phase in part.phases)

    @property
    def phase(self) -> str:
        """The one that needs the most."""
        return max(PHASES, key=self.of)

    @property
    def peak(self) -> int:
        return self.of(self.phase)

    @property
    def fits(self) -> bool:
        return self.peak <= self.setting.gpu.memory


def shares(stage: int, gpus: int) -> tuple[float, float, float]:
    """Which part of weights, of gradients, and of optimizer and masters a GPU holds."""
    part = 1.0 / gpus
    return part if stage >= 3 else 1.0, part if stage >= 2 else 1.0, part if stage >= 1 else 1.0


def plan_memory(config, counts: Counts, setting: Setting) -> Memory:
    """Of one GPU, the most loaded."""
    micro = micro_batch(config, setting)
    on_gpu, on_host = states(counts, setting)
    parts = [*on_gpu, *beside(counts, setting), *_update(counts, setting, micro), *_rollout(counts, setting),
             *_framework(counts, setting, micro)]
    return Memory(setting, tuple(part for part in parts if part.bytes),
                  tuple(part for part in on_host if part.bytes), micro)


def stages(config, counts: Counts, setting: Setting, which: Sequence[int]) -> list[Memory]:
    """The same at other ZeRO stages; without the offload that does not go with one."""
    found = []
    for stage in which:
        offload = setting.offload if stage == 3 or (stage and setting.offload == "optimizer") else "none"
        found.append(plan_memory(config, counts, replace(setting, offload=offload, **sharing(setting, stage))))
    return found


def states(counts: Counts, setting: Setting) -> tuple[list[Part], list[Part]]:
    """Weights, gradients, optimizer, masters: those on the GPU, and those in the host's memory."""
    whole, part_g, part_o = shares(setting.zero, setting.gpus)
    frozen = counts.total if setting.rank else 0
    weight = BYTES[setting.dtype]
    copied = setting.engine == "deepspeed" or setting.short and not setting.rank
    sizes = {"weights": (frozen * weight + counts.trained * (4 if setting.rank else weight)) * whole,
             "gradients": 4 * counts.trained * part_g, "optimizer": 8 * counts.trained * part_o,
             "masters": 4 * counts.trained * part_o * copied}
    away = {"none": (), "optimizer": ("gradients", "optimizer", "masters"), "parameters": tuple(sizes)}[setting.offload]
    parts = {name: Part(name, int(size)) for name, size in sizes.items()}
    if setting.engine == "deepspeed":  # its step leaves none behind; torch's stay until the next update
        parts["gradients"] = replace(parts["gradients"], phases=("update", "step"))
    return ([part for name, part in parts.items() if name not in away], [parts[name] for name in away])


def beside(counts: Counts, setting: Setting) -> list[Part]:
    """Weights that are only read: teacher, reference, and those that sample ahead."""
    whole, *_ = shares(setting.zero, setting.gpus)
    copy = 4 * counts.trained if setting.rank else BYTES[setting.dtype] * counts.total
    mean = 4 * counts.trained if setting.teacher == "ema" and setting.short and not setting.rank else 0
    here = 0 if setting.offload == "parameters" else 1
    return [Part("teacher", int((copy + mean) * whole * here * (setting.teacher not in ("none", "live")))),
            Part("reference", int(copy * whole * here * setting.reference)),
            Part("sampling ahead", copy * setting.overlap)]


def kv_tokens(setting: Setting) -> int:
    """Tokens whose keys and values are kept where the policy itself samples: prompts once, then each row's own."""
    rows = min(setting.sequences, setting.groups_of_rank * setting.group)
    prompts = min(-(-rows // setting.group), setting.groups_of_rank) if setting.shared else rows
    return prompts * setting.prompt + rows * setting.response


def _update(counts: Counts, setting: Setting, micro: MicroBatch) -> list[Part]:
    *_, part = shares(setting.zero, setting.gpus)
    flat = 4 * counts.trained * part if setting.engine == "deepspeed" else 0
    step = (4 * counts.trained * part if setting.device == "cuda"
            else 2 * (flat or 4 * min(counts.tensor, counts.trained)))
    stepping = 0 if setting.offload != "none" else int(max(step + flat, _summing(counts, setting)))
    return [Part("activations", micro.kept, ("update",)), Part("workspace", micro.workspace, ("update",)),
            Part("stepping", stepping, ("step",))]


def _summing(counts: Counts, setting: Setting) -> int:
    """PyTorch's engine: gradients of several GPUs, as `serl.train.gradients` sums them."""
    from serl.train.gradients import BUCKET

    if setting.engine != "torch" or setting.gpus == 1:
        return 0
    return 4 * (max(min(BUCKET, counts.trained), counts.tensor) + counts.tensor)


def _rollout(counts: Counts, setting: Setting) -> list[Part]:
    if setting.sampler == "elsewhere":
        return []
    if setting.sampler == "colocated":
        phases = ("rollout",) if setting.sleep else PHASES
        return [Part("vLLM's weights", counts.total * BYTES[setting.sampler_dtype], phases),
                Part("keys and values", setting.kv_cache, phases), Part("vLLM", VLLM)]
    weight = BYTES[setting.dtype]
    rows = min(setting.sequences, setting.groups_of_rank * setting.group)
    whole, *_ = shares(setting.zero, setting.gpus)
    gathered = 0 if setting.offload == "none" and whole == 1.0 else int(counts.total * weight * (
        1.0 if setting.offload == "parameters" else 1.0 - whole))
    return [Part("keys and values", kv_tokens(setting) * counts.kv_bytes(weight), ("rollout",)),
            Part("logits of rows", rows * counts.vocabulary * 4 * 3, ("rollout",)),
            Part("gathered weights", gathered, ("rollout",))]


def _framework(counts: Counts, setting: Setting, micro: MicroBatch) -> list[Part]:
    from serl.train.deepspeed import BUCKET

    buckets = 4 * min(BUCKET, counts.trained) if setting.engine == "deepspeed" else 0
    live = 2 * counts.largest * BYTES[setting.dtype] if setting.zero == 3 else 0
    if setting.device == "cpu":
        return [Part("buffers", buckets)]
    return [Part("buffers", buckets), Part("gathered", live, ("update",)),
            Part("framework", CONTEXT + NCCL * (setting.gpus > 1)),
            Part("fragmentation", int(FRAGMENTED * micro.peak), ("update",))]


def engine_memory(counts: Counts, setting: Setting) -> list[Part]:
    """Of each GPU that only samples."""
    weights = counts.total * BYTES[setting.sampler_dtype] // setting.tensor_parallel
    return [Part("vLLM's weights", weights), Part("keys and values", setting.kv_cache), Part("vLLM", VLLM),
            Part("framework", CONTEXT + NCCL * (setting.tensor_parallel > 1))]


def least(counts: Counts, setting: Setting) -> int:
    """What a setting needs at least, without counting a micro-batch."""
    micro = MicroBatch(0, 0, 0, 0, 0)
    parts = [*states(counts, setting)[0], *beside(counts, setting), *_update(counts, setting, micro),
             *_rollout(counts, setting), *_framework(counts, setting, micro)]
    return max(sum(part.bytes for part in parts if phase in part.phases) for phase in PHASES)
