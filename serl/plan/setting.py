"""What is planned: the options of a config that memory and time follow from, and what no config says.

Lengths, unless they are given, are the longest that the config allows:

    response  turns · max_new_tokens + (turns − 1) · (observation_tokens + FRAMING), within max_length
    prompt    schema (grounding.budget) + words of the system message and the question, within what is left
"""

from collections.abc import Sequence
from dataclasses import dataclass

from serl.config import Config
from serl.config.rules import DISTILLED
from serl.errors import InputError
from serl.plan.known import Gpu

FRAMING = 16  # tokens of the chat's frame around an observation
QUESTION = 128  # tokens of a question with its evidence: few of BIRD's have more
WORDS = {"brief": 16, "full": 512}  # of the system message, by agent.prompt; its frame included
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Setting:
    """Lengths in tokens, sizes in bytes. `sampled` of the `response` tokens come from the policy."""

    gpus: int
    gpu: Gpu
    dtype: str
    prompt: int
    response: int
    sampled: int
    turns: int
    group: int
    questions: int
    micro_tokens: int
    shared: bool
    checkpointing: bool
    rank: int  # of adapters; 0: all weights are trained
    targets: tuple[str, ...]
    engine: str  # torch | deepspeed
    zero: int
    offload: str  # none | optimizer | parameters
    teacher: str  # none | live | periodic | ema | frozen
    hindsight: int
    score_first: bool  # else a live teacher is asked in the update
    reference: bool
    overlap: bool
    sampler: str  # hf (the policy itself) | colocated (vLLM on the GPUs that train) | elsewhere (vLLM on others)
    sleep: bool
    rollout_gpus: int  # that sample, in all
    sampler_dtype: str
    tensor_parallel: int  # GPUs that share a vLLM engine's weights, as rollout.vllm.arguments say
    kv_cache: int  # of a vLLM engine, on each of its GPUs
    sequences: int  # decoded at once, by an engine or a rank
    device: str = "cuda"  # cpu: to be compared with what was measured there

    @property
    def trajectories(self) -> int:
        return self.questions * self.group

    @property
    def groups_of_rank(self) -> int:
        """Groups that the most loaded rank learns from."""
        return -(-self.questions // self.gpus)

    @property
    def short(self) -> bool:
        """Whether weights have 16 bits, so that what is trained needs a float32 copy."""
        return BYTES[self.dtype] == 2


@dataclass(frozen=True)
class Asked:
    """What a command line says; None: as the config has it, or its default."""

    gpus: int
    gpu: Gpu
    prompt: int | None = None
    response: int | None = None
    rollout_gpus: int = 0


def sharing(setting: Setting, stage: int) -> dict[str, object]:
    """The fields of a setting at another ZeRO stage: the engine that has it, and no teacher asked within an update."""
    return {"engine": "deepspeed" if stage else "torch", "zero": stage,
            "score_first": setting.score_first or stage >= 2}


def setting_of(config: Config, asked: Asked) -> Setting:
    """The setting of a config and a command line; InputError where they do not go together."""
    rollout, vllm, hindsight, agent = config.rollout, config.rollout.vllm, config.hindsight, config.agent
    engine = config.engine
    prompt, response = lengths(config, asked)
    observed = (agent.max_turns - 1) * (agent.observation_tokens + FRAMING)
    taught = hindsight.source == "teacher_gap" and (hindsight.lambda0 > 0 or config.train.loss in DISTILLED)
    sampler = "hf" if rollout.engine == "hf" else "elsewhere" if asked.rollout_gpus else "colocated"
    if asked.rollout_gpus and rollout.engine == "hf":
        raise InputError("--rollout-gpus: rollout.engine hf samples on the GPUs that train; set it to vllm_server")
    _check(asked)
    return Setting(
        gpus=asked.gpus, gpu=asked.gpu, dtype=config.model.dtype, prompt=prompt, response=response,
        sampled=max(1, response - min(observed, response // 2)), turns=agent.max_turns, group=rollout.group_size,
        questions=rollout.questions, micro_tokens=config.train.micro_tokens, shared=config.model.shared_prefix,
        checkpointing=config.model.gradient_checkpointing, rank=config.model.lora.rank,
        targets=config.model.lora.targets, engine=engine.kind, zero=engine.zero, offload=engine.offload,
        teacher=hindsight.teacher.mode if taught else "none", hindsight=hindsight.budget,
        score_first=config.train.score_first, reference=config.train.kl_beta > 0, overlap=bool(rollout.overlap),
        sampler=sampler, sleep=vllm.sleep,
        rollout_gpus=asked.rollout_gpus or asked.gpus, sampler_dtype=vllm.dtype or config.model.dtype,
        tensor_parallel=_tensor_parallel(vllm.arguments), kv_cache=int(vllm.kv_cache_gib * 2**30),
        sequences=rollout.batch_size if rollout.engine == "hf" else vllm.max_sequences)


def lengths(config: Config, asked: Asked) -> tuple[int, int]:
    """Tokens of prompt and response."""
    agent, longest = config.agent, config.model.max_length
    prompt = _first(asked.prompt, config.grounding.budget + QUESTION + WORDS[agent.prompt])
    if asked.prompt is None:
        prompt = max(1, min(prompt, longest - agent.max_new_tokens))
    response = agent.max_turns * agent.max_new_tokens + (agent.max_turns - 1) * (agent.observation_tokens + FRAMING)
    if asked.response is None:
        response = max(1, min(response, longest - prompt))
    return prompt, _first(asked.response, response)


def _check(asked: Asked) -> None:
    for name in ("gpus", "prompt", "response"):
        if (value := getattr(asked, name)) is not None and value < 1:
            raise InputError(f"--{name} {value}: must be at least 1")
    if asked.rollout_gpus < 0:
        raise InputError(f"--rollout-gpus {asked.rollout_gpus}: must be at least 0")


def _tensor_parallel(arguments: Sequence[str]) -> int:
    flat = [part for argument in arguments for part in argument.split("=", 1)]
    after = [value for name, value in zip(flat, flat[1:]) if name in ("--tensor-parallel-size", "-tp")]
    return int(after[0]) if after and after[0].isdigit() else 1


def _first(*values):
    return next((value for value in values if value is not None), None)
