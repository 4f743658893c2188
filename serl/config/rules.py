"""Rules between options: combinations that would say nothing, or not what they seem to say, are input errors."""

import re
from dataclasses import fields
from operator import attrgetter
from urllib.parse import urlsplit

from serl.agent.dialects import CLOSE_THINKING, OPEN_THINKING, Tool
from serl.config.options import (
    AgentConfig,
    Config,
    EngineConfig,
    EvalConfig,
    GroundingOptions,
    HindsightConfig,
    ModelConfig,
    RolloutConfig,
    TrainConfig,
    VLLMConfig,
)
from serl.errors import InputError
from serl.select import NAMES, ORACLE, REWARD

# The reductions that a loss is defined by; grpo goes with any.
REDUCTIONS = {"dapo": ("token_mean",), "cispo": ("token_mean",), "dr_grpo": ("seq_sum",), "gspo": ("seq_mean",),
              "distillation": ("token_mean", "seq_sum"), "sdpo": ("token_mean", "seq_sum")}
DISTILLED = ("distillation", "sdpo")
# What these make no use of, since it shapes advantages, their weights or their ratios.
NOT_DISTILLED = ("hindsight.source", "hindsight.gap", "hindsight.map", "hindsight.normalize", "hindsight.sign_scope",
                 "train.credit", "train.refill", "train.kl_beta", "train.tis", "train.dual_clip", "train.clip_low",
                 "train.clip_high")

_PREFILL = re.compile(rf"({OPEN_THINKING}([^<]*{CLOSE_THINKING})?\s*)?")
# What is said to a model that names links, and of no use without one.
CHAT = ("chat_url", "chat_model", "chat_key", "chat_timeout_s", "chat_workers", "chat_budget")
SERVED = ("chat_model", "chat_key", "chat_timeout_s", "chat_workers")  # of a server, not of the policy
# Options of rollout.vllm that say something only of servers, and those that say how an engine is started.
OF_SERVERS = ("urls", "servers", "request_timeout_s")
OF_STARTED = ("servers", "kv_cache_gib", "max_sequences", "eager", "threads", "arguments", "startup_timeout_s")


def check_grounding(grounding: GroundingOptions) -> None:
    """Gold only by opt-in, and no setting of a model that is not asked."""
    if (grounding.mode == "oracle") != grounding.allow_gold:
        raise InputError("config: grounding.allow_gold is of no use unless grounding.mode is oracle"
                         if grounding.allow_gold else
                         "config: grounding.mode oracle shows the policy which tables and columns gold SQL uses; set "
                         "grounding.allow_gold to true if that is meant")
    reasons = grounding.links != "values"
    if reasons and grounding.mode == "oracle":
        raise InputError(f"config: grounding.links {grounding.links} plays no part in grounding.mode oracle")
    if reasons and (grounding.chat_url is None) != (grounding.chat_model is None):
        raise InputError("config: grounding.chat_url and grounding.chat_model go together; leave both null to ask the "
                         "policy")
    unused = () if reasons and grounding.chat_url else SERVED if reasons else CHAT
    for name in unused:
        if getattr(grounding, name) != getattr(GroundingOptions(), name):
            raise InputError(f"config: grounding.{name} is of no use "
                             + ("where the policy is asked: name grounding.chat_url" if reasons else
                                "unless grounding.links is reasoning+values"))
    if not grounding.chat_timeout_s > 0:
        raise InputError(f"config: grounding.chat_timeout_s is {grounding.chat_timeout_s}; it must be above 0")


def check_agent(agent: AgentConfig) -> None:
    """A dialect without queries has no second turn, and a message can only begin with thinking."""
    if agent.dialect == "fence" and agent.max_turns != 1:
        raise InputError(f"config: agent.max_turns is {agent.max_turns}; agent.dialect fence has no queries, so set it "
                         "to 1")
    if not _PREFILL.fullmatch(agent.prefill):
        raise InputError(f"config: agent.prefill is {agent.prefill!r}; it may open thinking, as \"{OPEN_THINKING}\\n\""
                         f", or hold one whole {OPEN_THINKING}...{CLOSE_THINKING}")


def check_tools(config: Config) -> None:
    """Tools and their order in the dialect that has them, a memory where there is something to remember."""
    agent, default = config.agent, AgentConfig()
    for name in ("tools", "order"):
        if agent.dialect != "hermes" and getattr(agent, name) != getattr(default, name):
            raise InputError(f"config: agent.{name} is of no use in agent.dialect {agent.dialect}, which has no tools")
    for tool in agent.tools:
        if tool not in tuple(Tool):
            raise InputError(f"config: agent.tools has {tool!r}; choose from {', '.join(Tool)}")
    if not agent.tools or len(set(agent.tools)) < len(agent.tools):
        raise InputError(f"config: agent.tools is {list(agent.tools)}; name one tool or more, each once")
    if agent.order != "off" and Tool.EXECUTE not in agent.tools:
        raise InputError(f"config: agent.order {agent.order} begins with {Tool.EXECUTE}, which agent.tools lacks")
    if Tool.MEMORY not in agent.tools:
        if agent.prior != default.prior:
            raise InputError(f"config: agent.prior {agent.prior} is of the memory; add {Tool.MEMORY} to agent.tools")
        return
    from serl.data.dialogue import DIALOGUE_FORMATS  # with all readers

    if config.data.format not in DIALOGUE_FORMATS:
        raise InputError(f"config: agent.tools has {Tool.MEMORY}, but data.format {config.data.format} has no "
                         f"dialogues; take one of {', '.join(DIALOGUE_FORMATS)}")
    if agent.prior != "gold" and config.train.refill:
        raise InputError(f"config: train.refill replaces single questions, and with agent.prior {agent.prior} whole "
                         "dialogues are asked; set it to 0")


def check_credit(config: Config) -> None:
    """Credit by step needs rewards that are of steps."""
    if config.train.credit != "step":
        return
    from serl.reward.panel import terms_of  # its terms read these options
    from serl.reward.process import Process

    if not any(isinstance(term, Process) for term, _ in terms_of(config.reward).values()):
        raise InputError(f"config: train.credit step has nothing to share out: no term of reward "
                         f"{config.reward.preset} is about single actions; mtsql_r1 has such terms")


def check_form(config: Config) -> None:
    """A prompt that has done the thinking leaves a message that cannot keep the form which most rewards ask for."""
    if (config.reward.preset not in ("serl", "none") and config.agent.dialect == "fence"
            and CLOSE_THINKING in config.agent.prefill):
        raise InputError(f"config: agent.prefill {config.agent.prefill!r} closes the thinking, so no completion keeps "
                         f"the form that reward {config.reward.preset} asks for; open it only, or leave it empty")


def check_lora(model: ModelConfig) -> None:
    """Adapters need something to adapt, and no randomness."""
    if model.lora.dropout != 0:
        raise InputError(f"config: model.lora.dropout is {model.lora.dropout}; it must be 0, or a token's log-prob "
                         "would be another one at each forward")
    if not model.lora.alpha > 0:
        raise InputError(f"config: model.lora.alpha is {model.lora.alpha}; it must be above 0")
    if model.lora.rank and not model.lora.targets:
        raise InputError("config: model.lora.targets is empty, so nothing would be trained; name linear layers, or "
                         "all-linear")
    if model.lora.rank and model.path == "scratch":
        raise InputError("config: model.path scratch has no weights to adapt; set model.lora.rank to 0")


def check_loss(train: TrainConfig) -> None:
    """Each loss with the reduction it is defined by, and no bound that it does not have."""
    needed = REDUCTIONS.get(train.loss, (train.reduction,))
    if train.reduction not in needed:
        raise InputError(f"config: train.loss {train.loss} needs train.reduction {' or '.join(needed)}, not "
                         f"{train.reduction}")
    if train.dual_clip is not None and not train.dual_clip > 1:
        raise InputError(f"config: train.dual_clip is {train.dual_clip}; it must be above 1")
    if train.dual_clip is not None and train.loss == "cispo":
        raise InputError("config: train.dual_clip has nothing to bound in cispo, whose weights are clipped on both "
                         "signs; leave it null")


def check_overlap(config: Config) -> None:
    """Sampling by older weights needs its correction, and a step that knows its questions beforehand."""
    if config.rollout.overlap and config.train.tis == "off":
        raise InputError("config: rollout.overlap 1 samples by weights of before the last update, so train.tis must "
                         "correct for it: token, sequence or mask")
    if config.rollout.overlap and config.train.refill:
        raise InputError("config: rollout.overlap 1 does not go with train.refill, which decides by the rewards of a "
                         "batch what else to sample; set one of them to 0")
    if config.rollout.overlap and config.rollout.engine != "hf":
        raise InputError(f"config: rollout.overlap 1 samples from a copy of the policy in this process; rollout.engine "
                         f"{config.rollout.engine} has one set of weights, which the update needs to be in step with")


def check_partition(config: Config) -> None:
    """What DeepSpeed shares among processes, and what does not go with weights or gradients in parts."""
    engine = config.engine
    if engine.kind == "torch":
        for name in ("zero", "offload"):
            if getattr(engine, name) != getattr(EngineConfig(), name):
                raise InputError(f"config: engine.{name} {getattr(engine, name)} needs engine.kind deepspeed")
        return
    if engine.zero == 0:
        raise InputError("config: engine.kind deepspeed needs engine.zero 1, 2 or 3; processes that share nothing are "
                         "engine.kind torch")
    if engine.offload == "parameters" and engine.zero != 3:
        raise InputError(f"config: engine.offload parameters needs engine.zero 3; with {engine.zero} every process "
                         "computes with all weights")
    if not config.train.grad_clip > 0:
        raise InputError("config: train.grad_clip must be above 0 with engine.kind deepspeed, which takes 0 for no "
                         "clipping")
    if engine.zero == 3 and config.rollout.overlap:
        raise InputError("config: rollout.overlap 1 samples from a copy of the policy beside the update, and "
                         "engine.zero 3 leaves no process a whole one; set one of them lower")
    asked_within = (config.hindsight.source == "teacher_gap" and config.hindsight.teacher.mode == "live"
                    and config.train.loss not in DISTILLED and config.model.shared_prefix)
    if engine.zero >= 2 and asked_within and not config.train.score_first:
        raise InputError(f"config: engine.zero {engine.zero} with hindsight.teacher.mode live needs train.score_first "
                         "true, so that processes make the same passes in an update, whatever hindsight each has")


def check_distillation(config: Config) -> None:
    """The losses that imitate the teacher, without what belongs to advantages."""
    train, default = config.train, Config()
    if train.distill_over == "sampled" and (train.loss != "sdpo" or train.sdpo_symmetric):
        raise InputError("config: train.distill_over sampled estimates the reverse KL from what the student sampled: "
                         "it goes only with train.loss sdpo and train.sdpo_symmetric false")
    if train.loss not in DISTILLED:
        return
    for name in NOT_DISTILLED:
        usual = attrgetter(name)(default)
        if attrgetter(name)(config) != usual:
            raise InputError(f"config: {name} plays no part in train.loss {train.loss}, which imitates the teacher; "
                             f"leave it {'null' if usual is None else usual}")
    if config.hindsight.mask == "none":
        raise InputError(f"config: hindsight.mask none leaves train.loss {train.loss} no token to learn from")


def check_sft(config: Config) -> None:
    """Thinking is written where a message can begin with it, and given by data that has it."""
    reasoning, prefill = config.sft.reasoning, config.agent.prefill
    if reasoning != "none" and CLOSE_THINKING in prefill:
        raise InputError(f"config: sft.reasoning {reasoning} writes thinking, but agent.prefill {prefill!r} closes it "
                         "before; set one of them otherwise")
    if reasoning == "given" and config.data.format != "synsql":
        raise InputError(f"config: sft.reasoning given needs data that has it (data.format synsql), not "
                         f"{config.data.format}; written makes it from gold")


def check_teacher(hindsight: HindsightConfig) -> None:
    """Weights of its own need a teacher that keeps them; and only the source that asks a teacher has use for either."""
    path, mode = hindsight.teacher.path, hindsight.teacher.mode
    if path is not None and mode != "frozen":
        why = {"live": "is the student itself and has no weights of its own",
               "periodic": "would copy the student over these weights at its first synchronization",
               "ema": "would blend these weights with the student's until nothing is left of them"}[mode]
        raise InputError(f"config: hindsight.teacher.path needs hindsight.teacher.mode frozen: {mode} {why}")
    if hindsight.source == "teacher_gap":
        return
    for name, usual in (("teacher.path", "null"), ("gap", "teacher_student")):
        if str(attrgetter(name)(hindsight) or "null") != usual:
            raise InputError(f"config: hindsight.{name} plays no part in hindsight.source {hindsight.source}, which "
                             f"asks no teacher; leave it {usual}")


def check_selection(config: Config) -> None:
    """Selectors that there are, and the learnt one without gold in what it looks at."""
    select = config.eval.select
    for name in select:
        if name not in (*NAMES, ORACLE):
            raise InputError(f"config: eval.select has {name!r}; choose from {', '.join((*NAMES, ORACLE))}")
    if config.eval.selector is not None and REWARD not in select:
        raise InputError(f"config: eval.selector holds weights of the selector {REWARD}; name it in eval.select")
    if "adaptive" not in select and config.eval.confidence != EvalConfig().confidence:
        raise InputError("config: eval.confidence is of the selector adaptive; name it in eval.select")
    if REWARD in select and config.grounding.mode == "oracle":
        raise InputError(f"config: the selector {REWARD} looks at what grounding links, and in grounding.mode oracle "
                         "that is what gold SQL uses; leave it out of eval.select")


def check_engine(rollout: RolloutConfig) -> None:
    """Options of vLLM only where they say something, servers that can be asked, times and sizes above 0."""
    vllm = rollout.vllm
    for url in vllm.urls:
        if not _names_host(url):
            raise InputError(f"config: rollout.vllm.urls has {url!r}; it must begin with http:// or https:// and name "
                             "a host, as http://host:8000")
    if len(set(vllm.urls)) < len(vllm.urls):
        raise InputError(f"config: rollout.vllm.urls is {list(vllm.urls)}; name each server once")
    for name in ("kv_cache_gib", "startup_timeout_s", "request_timeout_s", "tolerance"):
        if not getattr(vllm, name) > 0:
            raise InputError(f"config: rollout.vllm.{name} is {getattr(vllm, name)}; it must be above 0")
    unused = {"hf": tuple(field.name for field in fields(VLLMConfig)), "vllm": OF_SERVERS,
              "vllm_server": OF_STARTED if vllm.urls else ()}[rollout.engine]
    for name in unused:
        if getattr(vllm, name) != getattr(VLLMConfig(), name):
            where = " with the rollout.vllm.urls of servers that run already" if rollout.engine == "vllm_server" else ""
            raise InputError(f"config: rollout.vllm.{name} plays no part in rollout.engine {rollout.engine}{where}; "
                             "leave it out")


def _names_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        return False


def check_tolerance(config: Config) -> None:
    """Engines that round to 16 bits cannot agree with the trainer to less than that."""
    rollout, dtype = config.rollout, config.rollout.vllm.dtype or config.model.dtype
    if rollout.engine != "hf" and "bfloat16" in (dtype, config.model.dtype) and rollout.vllm.tolerance < 1e-2:
        raise InputError(f"config: rollout.vllm.tolerance is {rollout.vllm.tolerance}; in bfloat16 log-probs of two "
                         "right implementations differ by more, set it to about 0.2")
