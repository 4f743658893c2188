"""What a run works with: config, model, tokenizer, environment, sandbox and prepared questions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from serl import lora
from serl import model as models
from serl.agent.env import Environment
from serl.agreement import check_agreement
from serl.config import Config
from serl.errors import InputError
from serl.generate.hf import HFGenerator
from serl.generate.interface import Generator
from serl.generate.vllm.build import Engines, make_engines
from serl.linker import policy_reasoner
from serl.parallel import ALONE, Ranks
from serl.recompute import recompute_layers
from serl.sql.sandbox import Sandbox
from serl.task import Preparer, make_sandbox
from serl.train.obstacle import can_share


@dataclass(frozen=True)
class Workbench:
    """Opened by `open_workbench`; closed with it."""

    config: Config
    model: object
    tokenizer: object
    env: Environment
    sandbox: Sandbox
    preparer: Preparer
    engines: Engines | None  # where others than the policy itself sample from its weights
    ranks: Ranks = ALONE  # the processes that share the run

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def generator(self, batch_size: int, model=None) -> Generator:
        """A sampler of the current weights, or of those of another model of the same kind."""
        if self.engines is not None:
            return self.engines.current(self.model)
        return make_generator(self.config, model or self.model, self.tokenizer, self.env, batch_size)

    def weights_changed(self) -> None:
        """To be called after each update: engines with weights of their own take the new ones."""
        if self.engines is not None:
            self.engines.changed()

    def rest(self) -> None:
        """To be called when nothing is sampled for a while: with `rollout.vllm.sleep` engines give memory back."""
        if self.engines is not None and self.config.rollout.vllm.sleep:
            self.engines.rest()

    def engine_metrics(self) -> dict[str, float]:
        """How the engines took over the weights that they sample with: `sync/...` and `time/sync`."""
        return {} if self.engines is None else self.engines.metrics

    def reference(self) -> models.Snapshot:
        """The policy that a run starts from, for the KL term: the model as it is now, with a new adapter off."""
        start = models.Snapshot(self.model)
        if self.config.model.lora.rank and not lora.is_adapter(self.config.model.path):
            start.model.disable_adapters()
        return start

    @cached_property
    def own_teacher(self):
        """The model of `hindsight.teacher.path`, loaded once; None where the teacher begins as the student."""
        path = self.config.hindsight.teacher.path
        return None if path is None else self.beside(path, "hindsight.teacher.path")

    def beside(self, path: str, option: str):
        """Another model that reads the student's token ids; InputError, which names `option`, if it cannot."""
        model, tokenizer = models.load(path, self.config.model.dtype)
        if tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise InputError(f"{option} {path}: its tokenizer is not the student's, so it cannot read the student's "
                             "tokens")
        models.check_length(model, self.config.model.max_length, f"{option} {path}")
        if self.config.model.shared_prefix and not can_share(model):
            raise InputError(f"{option} {path}: {type(model).__name__} cannot share prompts; set model.shared_prefix "
                             "to false")
        return model


@contextmanager
def open_workbench(config: Config, model_path: str | None = None, ranks: Ranks = ALONE) -> Iterator[Workbench]:
    """Load the model (`model_path`, else the config's), start the sandbox, close it at the end."""
    model, tokenizer = models.load(model_path or config.model.path, config.model.dtype, config.model.lora,
                                   config.seed)
    with workbench_of(config, model, tokenizer, ranks) as bench:
        yield bench


@contextmanager
def workbench_of(config: Config, model, tokenizer, ranks: Ranks = ALONE) -> Iterator[Workbench]:
    """A workbench around a model that is loaded already.

    Each of several ranks has one of its own; InputError if their configs or the weights of their models differ.
    """
    check_agreement(ranks, config, {"the policy": model})
    if config.model.shared_prefix and not can_share(model):
        config = replace(config, model=replace(config.model, shared_prefix=False))
    models.check_length(model, config.model.max_length, f"model {config.model.path}")
    env = Environment.build(tokenizer, config.agent, config.model.max_length)
    if config.model.gradient_checkpointing:
        recompute_layers(model)
    engines = make_engines(config, model, tokenizer, env.stop_rule(models.eos_ids(model, tokenizer)), ranks)
    try:
        with make_sandbox(config) as sandbox:
            policy = None
            if config.grounding.asks_policy:
                policy = policy_reasoner(make_generator(config, model, tokenizer, env, 1), env, config.grounding)
            yield Workbench(config, model, tokenizer, env, sandbox, Preparer(config, env, sandbox, policy, ranks),
                            engines, ranks)
    finally:
        if engines is not None:
            engines.close()


def make_generator(config: Config, model, tokenizer, env: Environment, batch_size: int) -> HFGenerator:
    """A sampler of a model's current weights."""
    return HFGenerator(model, env.stop_rule(models.eos_ids(model, tokenizer)), config.seed, batch_size,
                       config.model.shared_prefix)
