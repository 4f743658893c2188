"""Questions made ready for a policy: grounded schema, prompt tokens and gold result.

Both training and evaluation take their questions from here, so they see the same prompts.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grounding import GroundedSchema, Grounder, GroundingConfig, Request, render_schema
from serl import data
from serl.agent.env import Environment
from serl.config import Config
from serl.data.example import Example
from serl.errors import InputError
from serl.sql.gold import GoldCache
from serl.sql.outcome import Outcome
from serl.sql.sandbox import Limits, Sandbox


@dataclass(frozen=True)
class Question:
    """One question, ready to be asked. `index` is its place in the split: part of its random streams."""

    example: Example
    index: int
    schema: str
    prompt_ids: tuple[int, ...]
    gold: Outcome


class Preparer:
    """Grounds, renders and encodes questions once, however often they are asked."""

    def __init__(self, config: Config, env: Environment, sandbox: Sandbox) -> None:
        self.config, self.env, self.sandbox = config, env, sandbox
        self.grounder = make_grounder(config)
        self._ready: dict[tuple[str, int], Question] = {}

    def load_split(self, split: str, limit: int | None = None) -> "Split":
        """Examples of a split whose gold can be trusted; `limit` takes a seeded sample, in file order."""
        examples = data.load(self.config.data.format, Path(self.config.data.root), split)
        if limit is not None and limit < len(examples):
            chosen = np.random.default_rng([self.config.seed, 17]).permutation(len(examples))[:limit]
            examples = [examples[index] for index in sorted(chosen)]
        cache = Path(self.config.sql.gold_cache) / f"{self.config.data.format}_{split}.jsonl"
        outcomes = GoldCache(cache, self.sandbox).outcomes(examples)
        gold = {question_id: outcome for question_id, outcome in outcomes.items() if outcome.ran}
        kept = [example for example in examples if example.question_id in gold]
        if len(kept) < len(examples):
            lost = [f"{question_id} ({outcome.status})" for question_id, outcome in outcomes.items()
                    if not outcome.ran]
            print(f"{split}: {len(lost)} of {len(examples)} questions are left out, their gold has no result: "
                  f"{', '.join(lost[:5])}{', ...' if len(lost) > 5 else ''}", file=sys.stderr)
        if not kept:
            raise InputError(f"{self.config.data.root}: no question of split {split} has a gold SQL that runs")
        return Split(split, kept, gold)

    def prepare(self, split: "Split", indices: Sequence[int]) -> list[Question]:
        """Questions at `indices` of the split."""
        missing = [i for i in dict.fromkeys(indices) if (split.name, i) not in self._ready]
        requests = [Request(example.question, example.db_path, example.evidence, example.description_dir)
                    for example in (split.examples[i] for i in missing)]
        for index, grounded in zip(missing, self.grounder.ground_many(requests)):
            self._ready[split.name, index] = self._question(split, index, grounded)
        return [self._ready[split.name, index] for index in indices]

    def _question(self, split: "Split", index: int, grounded: GroundedSchema) -> Question:
        """Render S' within its budget, or within what a long question leaves of the model's length."""
        example, options = split.examples[index], self.config.grounding

        def prompt(budget: int) -> tuple[str, list[int]]:
            schema = render_schema(grounded, options.style, budget, self.env.count_tokens)
            return schema, self.env.prompt_ids(example, schema)

        schema, ids = prompt(options.budget)
        if (over := len(ids) - self.env.longest_prompt) > 0:
            schema, ids = prompt(self.env.count_tokens(schema) - over)
        if len(ids) > self.env.longest_prompt:
            raise InputError(f"question {example.question_id} of {split.name}: its prompt has {len(ids)} tokens, but "
                             f"model.max_length - agent.max_new_tokens leaves {self.env.longest_prompt}")
        return Question(example, index, schema, tuple(ids), split.gold[example.question_id])


@dataclass(frozen=True)
class Split:
    """Examples in order, and their gold results by question id."""

    name: str
    examples: list[Example]
    gold: dict[str, Outcome]

    @property
    def databases(self) -> set[str]:
        return {example.db_id for example in self.examples}


def make_grounder(config: Config) -> Grounder:
    """The grounder that a config asks for."""
    options = config.grounding
    return Grounder(Path(options.cache), options.encoder, GroundingConfig(
        mode=options.mode, keep_all_columns=options.keep_all_columns,
        keep_table_columns=options.keep_table_columns))


def make_sandbox(config: Config) -> Sandbox:
    """The SQL sandbox that a config asks for."""
    return Sandbox(config.sql.workers, Limits(timeout_s=config.sql.timeout_s, max_rows=config.sql.max_rows))


def question_order(count: int, seed: int, start: int, size: int) -> list[int]:
    """Entries start..start+size−1 of an endless sequence of seeded permutations of range(count).

    Stateless, so that a resumed run continues it by position alone.

    >>> sorted(question_order(4, 0, 0, 4)) == [0, 1, 2, 3]
    True
    """
    out: list[int] = []
    for position in range(start, start + size):
        epoch, offset = divmod(position, count)
        if not out or offset == 0:
            permutation = np.random.default_rng([seed, 29, epoch]).permutation(count)
        out.append(int(permutation[offset]))
    return out


def unseen(examples: Iterable[Example], train: Split) -> set[str]:
    """Ids of the databases of `examples` that no training question is about."""
    return {example.db_id for example in examples} - train.databases
