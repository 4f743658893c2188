"""Questions made ready for a policy: grounded schema, prompt tokens and gold result.

Both training and evaluation take their questions from here, so they see the same prompts.
"""

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from grounding import GroundedSchema, Grounder, GroundingConfig, Request, render_schema
from grounding.reasoning import Reasoner
from serl import data
from serl.agent.dialects import Tool
from serl.agent.env import Environment
from serl.agent.memory import Prior
from serl.agent.past import Past
from serl.config import Config, DataConfig, GroundingOptions
from serl.data.balance import balanced
from serl.data.example import Example
from serl.data.turns import earlier_turns, whole_dialogues
from serl.errors import InputError
from serl.linker import gold_links, server_reasoner
from serl.parallel import ALONE, Ranks
from serl.sql.gold import GoldCache
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Limits, Sandbox


@dataclass(frozen=True)
class Question:
    """One question, ready to be asked. `index` is its place in the split's file: part of its random streams."""

    example: Example
    index: int
    schema: str
    prompt_ids: tuple[int, ...]
    gold: Outcome
    past: Past | None = None  # of a dialogue's turn, where there is a memory to tell of it


SHORTEST_SCHEMA = 64  # tokens of schema that must fit behind the longest question


@dataclass(frozen=True)
class Split:
    """Questions of a split that can be asked and judged. `positions` are their places in the file."""

    name: str
    examples: list[Example]
    positions: list[int]
    gold: dict[str, Outcome]  # by question id
    earlier: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)  # turns before one, by question id

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def fingerprint(self) -> str:
        """Which questions these are, and in which order: random choices go by their number and places."""
        asked = "\0".join(f"{position}\0{example.question_id}\0{example.question}"
                          for position, example in zip(self.positions, self.examples))
        return f"{len(self)} questions {hashlib.sha256(asked.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class Preparer:
    """Grounds, renders and encodes questions once, however often they are asked."""

    def __init__(self, config: Config, env: Environment, sandbox: Sandbox, policy: Reasoner | None = None,
                 ranks: Ranks = ALONE) -> None:
        """`policy` names links where the config asks the policy for them."""
        self.config, self.env, self.sandbox, self.ranks = config, env, sandbox, ranks
        if env.longest_prompt <= SHORTEST_SCHEMA:
            raise InputError(f"config: model.max_length {env.max_length} leaves {max(0, env.longest_prompt)} tokens "
                             "for a prompt beside what agent.max_new_tokens and agent.force_final take; raise it")
        self.grounder = make_grounder(config, policy)
        self._indexed: set[Path] = set()  # databases whose index some rank has made
        self._splits: dict[str, Split] = {}
        self._ready: dict[tuple[str, int], Question] = {}

    def load_split(self, name: str, limit: int | None = None) -> Split:
        """The usable questions of a split; `limit` takes a seeded sample of them, in file order.

        Of dialogues whole ones are taken, as many as the limit has room for, and one at least.
        """
        if name not in self._splits:
            # Rank 0 judges for all: a gold query near its time limit may end otherwise on another machine.
            self._splits[name] = self.ranks.first(lambda: self._load(name))
        split = self._splits[name]
        if limit is None or limit >= len(split):
            return split
        units, chosen = whole_dialogues(split.examples), []
        for place in np.random.default_rng([self.config.seed, 17]).permutation(len(units)):
            if not chosen or len(chosen) + len(units[place]) <= limit:
                chosen += units[place]
        return replace(split, examples=[split.examples[i] for i in sorted(chosen)],
                       positions=[split.positions[i] for i in sorted(chosen)])

    def prepare(self, split: Split, indices: Sequence[int] | None = None) -> list[Question]:
        """Questions at `indices` of the split, or all of them."""
        indices = range(len(split)) if indices is None else indices
        keys = {index: (split.name, split.positions[index]) for index in indices}
        missing = [index for index, key in keys.items() if key not in self._ready]
        examples = [split.examples[index] for index in missing]
        schemas = self.grounder.ground_many(requests_of(examples, self.config, split.earlier))
        for index, grounded in zip(missing, schemas):
            self._ready[keys[index]] = self._question(split, index, grounded)
        _say_unreasoned(split.name, schemas)
        return [self._ready[keys[index]] for index in indices]

    def units(self, split: Split) -> list[tuple[int, ...]]:
        """What is asked together, as indices of the split: each question by itself, or dialogues whose turns wait."""
        in_order = self._remembers and self.config.agent.prior != Prior.GOLD
        return whole_dialogues(split.examples) if in_order else [(index,) for index in range(len(split))]

    def prepare_share(self, split: Split, units: Sequence[Sequence[int]] | None = None) -> list[Question]:
        """This rank's of some units of the split (None: of all): all of them in one process. All ranks give the same.

        A database that they are the first to be about is indexed by one rank, other ones meanwhile by the others.
        """
        units = self.units(split) if units is None else units
        indices = [index for unit in units for index in unit]
        if self.ranks.size > 1:
            examples = {split.examples[index].db_path: split.examples[index] for index in indices}
            new = [example for path, example in examples.items() if path not in self._indexed]
            for place in self.ranks.share(len(new)):
                self.grounder.open(new[place].db_path, new[place].description_dir)
            if new:
                self.ranks.wait()
                self._indexed.update(examples)
        return self.prepare(split, [index for place in self.ranks.share(len(units)) for index in units[place]])

    @property
    def _remembers(self) -> bool:
        return Tool.MEMORY in self.config.agent.tools

    def _load(self, name: str) -> Split:
        examples, options = load_examples(self.config, name), self.config.data
        earlier = earlier_turns(examples)
        positions, trains = list(range(len(examples))), name == options.train_split
        if trains:
            positions = training_part(examples, self.config)
            examples = [examples[i] for i in positions]
        file = f"{_place(options, name)[0]}_{name}.jsonl"
        outcomes = GoldCache(Path(self.config.sql.gold_cache) / file, self.sandbox).outcomes(examples)
        no_rows = trains and options.empty_gold == "drop"
        unusable = {key: f"gold {outcome.status}" for key, outcome in outcomes.items()
                    if not outcome.ran or (no_rows and outcome.status is Status.EMPTY)}
        room = self.env.longest_prompt - SHORTEST_SCHEMA
        for example in examples:
            if (size := len(self.env.prompt_ids(example, "", earlier[example.question_id]))) > room:
                unusable[example.question_id] = f"{size} tokens without its schema"
        if self.config.grounding.mode == "oracle":
            unusable |= {example.question_id: "what its gold SQL uses cannot be told"
                         for example, links in zip(examples, gold_links(examples)) if links is None}
        kept = [i for i, example in enumerate(examples) if example.question_id not in unusable]
        if unusable:
            named = ", ".join(f"{key} ({why})" for key, why in list(unusable.items())[:5])
            counts = Counter(why for why in unusable.values() if why.startswith("gold "))
            sums = ", ".join(f"{count} {why}" for why, count in counts.most_common())
            print(f"{name}: {len(unusable)} of {len(examples)} questions are left out: {named}"
                  f"{', ...' if len(unusable) > 5 else ''}{f' (in all {sums})' if sums else ''}", file=sys.stderr)
        if trains and options.spare:
            chosen = {example.question_id for example in balanced((examples[i] for i in kept), _sample(options))}
            kept = [i for i in kept if examples[i].question_id in chosen]
        if not kept:
            raise InputError(f"{_place(options, name)[1]}: no question of split {name} can be asked and judged")
        return Split(name, [examples[i] for i in kept], [positions[i] for i in kept], outcomes, earlier)

    def _question(self, split: Split, index: int, grounded: GroundedSchema) -> Question:
        example = split.examples[index]
        earlier = split.earlier[example.question_id]
        schema, ids = render_prompt(self.env, example, grounded, self.config.grounding, earlier)
        past = None
        if self._remembers and example.interaction is not None:
            past = Past(example.db_path, earlier, {turn.question_id: split.gold[turn.question_id] for turn in earlier},
                        Prior(self.config.agent.prior), self.config.seed)
        return Question(example, split.positions[index], schema, tuple(ids), split.gold[example.question_id], past)


def render_prompt(env: Environment, example: Example, grounded: GroundedSchema, options: GroundingOptions,
                  earlier: Sequence[Example] = ()) -> tuple[str, list[int]]:
    """S' within its budget, or within what a long question leaves of the model's length, and the prompt's tokens.

    `earlier` are the turns of the dialogue before this one.
    """
    def prompt(budget: int) -> tuple[str, list[int]]:
        schema = render_schema(grounded, options.style, budget, env.count_tokens, options.samples)
        return schema, env.prompt_ids(example, schema, earlier)

    schema, ids = prompt(options.budget)
    while (over := len(ids) - env.longest_prompt) > 0:  # once, or again where tokens join at its ends
        schema, ids = prompt(env.count_tokens(schema) - over)
    return schema, ids


def load_examples(config: Config, split: str) -> list[Example]:
    """The questions of a split as its reader gives them; of the training split the sample that the config asks for."""
    format, root = _place(config.data, split)
    if split != config.data.train_split or format not in data.SAMPLED:
        return data.load(format, root, split)
    sample = _sample(config.data)
    if sample.per_level is not None:
        sample = replace(sample, per_level=math.ceil(sample.per_level * (1 + config.data.spare)))
    return data.load(format, root, split, sample)


def _place(options: DataConfig, split: str) -> tuple[str, Path]:
    """Format and root of a split."""
    if split == options.train_split or options.eval_root is None:
        return options.format, Path(options.root)
    return options.eval_format, Path(options.eval_root)


def _sample(options: DataConfig) -> data.Sample:
    return data.Sample(options.levels, options.per_level, options.sample_seed)


def make_grounder(config: Config, policy: Reasoner | None = None) -> Grounder:
    """The grounder that a config asks for; InputError where it asks the policy for links and there is none."""
    options = config.grounding
    if options.asks_policy and policy is None:
        raise InputError(f"config: grounding.links {options.links} without grounding.chat_url asks the policy, and "
                         "here there is none that stays as it is; name a server")
    reasoner = server_reasoner(options) if options.chat_url else policy
    return Grounder(Path(options.cache), options.encoder, GroundingConfig(
        mode=options.mode, keep_all_columns=options.keep_all_columns, keep_table_columns=options.keep_table_columns,
        link_similarity=options.link_similarity, max_values_per_column=options.max_values_per_column,
        numbers=options.numbers, samples=options.samples), reasoner=reasoner)


def requests_of(examples: Sequence[Example], config: Config, earlier: Mapping[str, Sequence[Example]] | None = None
                ) -> list[Request]:
    """What grounding is told of each example: gold's links only in mode oracle, which the config must have allowed.

    A turn is linked by all that its dialogue has said so far (`earlier`, by question id; None: of the examples).
    """
    earlier = earlier_turns(examples) if earlier is None else earlier
    links = gold_links(examples) if config.grounding.mode == "oracle" else [None] * len(examples)
    said = ["\n".join(turn.question for turn in (*earlier[example.question_id], example)) for example in examples]
    return [Request(text, example.db_path, example.evidence, example.description_dir, gold_links=own)
            for text, example, own in zip(said, examples, links)]


def _say_unreasoned(split: str, grounded: Sequence[GroundedSchema]) -> None:
    failed = [each for each in grounded if each.reasoned is False]
    if failed:
        print(f"{split}: {len(failed)} of {len(grounded)} questions are linked without a model's answer "
              f"(the first: {failed[0].warnings[-1]})", file=sys.stderr)


def training_part(examples: Sequence[Example], config: Config) -> list[int]:
    """Places of the training questions that the config uses, in file order; the same for every seed of a run.

    Dialogues are used whole or not at all.
    """
    units = whole_dialogues(examples)
    shuffled = np.random.default_rng(23).permutation(len(units))
    low, high = (round(share * len(units)) for share in (config.data.train_from, config.data.train_to))
    return sorted(index for place in shuffled[low:high] for index in units[place])


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


def unseen(examples: Iterable[Example], config: Config) -> set[str]:
    """Ids of the databases of `examples` that no training question is about (all, where training has other data)."""
    ids = {example.db_id for example in examples}
    if config.data.eval_root is not None:
        return ids
    try:
        training = load_examples(config, config.data.train_split)
    except InputError as error:
        print(f"every database counts as unseen, since there is no training split ({error})", file=sys.stderr)
        return ids
    return ids - {example.db_id for example in training}
