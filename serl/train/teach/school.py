"""`serl teach`: from a run's trajectories to a folder with the weights of a teacher, and a card that says of what.

Questions, not lessons, are held out. The epoch whose loss on them is least is kept, the start included: a teacher that
learned nothing that holds for other questions is the policy that it started from, and the card says so.
"""

import copy
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tqdm import tqdm

from serl import model as models
from serl.agent.token_bytes import TokenBytes
from serl.config import Config
from serl.config.hindsight import CLAUSES
from serl.errors import InputError
from serl.io import check_writable
from serl.recompute import recompute_layers
from serl.sql.tree.schema import schema_of
from serl.task import load_examples, make_sandbox
from serl.train import checkpoint
from serl.train.credit.replay import check_rows, group_of, newest_weights, read_groups, recorded_steps
from serl.train.obstacle import can_share
from serl.train.parts import add_parts
from serl.train.teach.card import CARD
from serl.train.teach.held_out import Exam, examine, is_learned
from serl.train.teach.learning import LessonRun
from serl.train.teach.lessons import Lesson, LessonWriter


@dataclass(frozen=True)
class Taught:
    """What was made: the folder, its card, and what each epoch did."""

    folder: Path
    card: Mapping[str, Any]
    exams: tuple[Exam, ...]
    kept: int  # the epoch


def teach(run: Path, config: Config, steps: Sequence[int] | None, start: str | None, out: Path) -> Taught:
    """Train a teacher on a run's steps (None: all) and write it to `out`; `start` (None: the run's newest) are weights.

    InputError for a run, steps, weights or a folder that cannot be used.
    """
    check_rows(run, config)
    if out.exists() and not (out / CARD).is_file():
        raise InputError(f"{out}: it exists and was not written by `serl teach`; choose another --out")
    check_writable(out.with_name(f".{out.name}.probe"))
    steps = recorded_steps(run) if steps is None else steps
    records, weights = read_groups(run, steps), start or str(newest_weights(run))
    model, tokenizer = models.load(weights, config.model.dtype)
    models.check_length(model, config.model.max_length, f"model {weights}")
    if config.model.gradient_checkpointing:
        recompute_layers(model)
    if config.model.shared_prefix and not can_share(model):
        config = replace(config, model=replace(config.model, shared_prefix=False))
    lessons = _write(records, tokenizer, config, run)
    learned, held_out = split(lessons, config)
    exams, kept = learn(model, learned, held_out, config)
    card = _card(run, steps, weights, config, learned, held_out, exams, kept)
    checkpoint.replace_model(out, model, tokenizer, {CARD: json.dumps(card, ensure_ascii=False, indent=1) + "\n"})
    return Taught(out, card, exams, kept)


def learn(model, learned: Sequence[Lesson], held_out: Sequence[Lesson], config: Config
          ) -> tuple[tuple[Exam, ...], int]:
    """Train a model in place, to the weights of its best epoch; what each epoch did, and which was kept."""
    exams = [examine(model, held_out, 0, config)]
    best = copy.deepcopy(model.state_dict())
    run = LessonRun(model, learned, config)

    def on_epoch() -> None:
        nonlocal best
        exams.append(examine(model, held_out, len(exams), config))
        tqdm.write(exams[-1].line(), file=sys.stderr)
        if exams[-1].loss < min(exam.loss for exam in exams[:-1]):
            best = copy.deepcopy(model.state_dict())

    tqdm.write(exams[0].line(), file=sys.stderr)
    run.train(lambda step, metrics: None, on_epoch)
    model.load_state_dict(best)
    return tuple(exams), min(exams, key=lambda exam: exam.loss).epoch


def split(lessons: Sequence[Lesson], config: Config) -> tuple[list[Lesson], list[Lesson]]:
    """Lessons to learn from, and all those of a seeded share of the questions, which are held out."""
    questions = list(dict.fromkeys(lesson.question for lesson in lessons))
    count = round(config.teach.held_out * len(questions))
    if not 0 < count < len(questions):
        raise InputError(f"teach.held_out {config.teach.held_out} of {len(questions)} questions with right and wrong "
                         f"solutions holds out {count}: both parts need one; give more steps or another share")
    apart = set(Random(f"{config.seed}/held out").sample(questions, count))
    return ([lesson for lesson in lessons if lesson.question not in apart and is_learned(lesson, config)],
            [lesson for lesson in lessons if lesson.question in apart])


def _write(records: Sequence[Sequence[Mapping[str, Any]]], tokenizer, config: Config, run: Path) -> list[Lesson]:
    """The lessons of a run's groups. Of a question's data only its database is looked at."""
    piece = TokenBytes(tokenizer).of
    writer = LessonWriter(config, lambda text: tokenizer.encode(text, add_special_tokens=False), piece)
    examples = load_examples(config, config.data.train_split)
    databases = {example.question_id: example.db_path for example in examples}
    lessons: list[Lesson] = []
    with make_sandbox(config) as sandbox:
        for group in tqdm(records, desc="lessons", unit="question"):
            question, samples = group[0]["question_id"], group_of(group, piece)
            if question not in databases:
                raise InputError(f"{config.data.root}: question {question} of {run} is not in its split "
                                 f"{config.data.train_split}; give the run's data with --data.root")
            if CLAUSES in config.teach.levels:
                samples = add_parts(sandbox, samples, [databases[question]] * len(samples))
            lessons += writer.write(question, samples, schema_of(databases[question]))
    return lessons


def _card(run: Path, steps: Sequence[int], start: str, config: Config, learned: Sequence[Lesson],
          held_out: Sequence[Lesson], exams: Sequence[Exam], kept: int) -> dict[str, Any]:
    hindsight = config.hindsight
    return {
        "made_by": "serl teach", "run": str(run), "steps": list(steps), "start": start, "seed": config.seed,
        "teach": asdict(config.teach),
        "hindsight": {"budget": hindsight.budget, "redact": hindsight.redact, "wording": asdict(hindsight.wording)},
        "gold": "not used",
        "lessons": dict(sorted(Counter(f"{each.kind} {each.level}" for each in learned).items())),
        "questions": sorted({each.question for each in learned}),
        "held_out_questions": sorted({each.question for each in held_out}),
        "epochs": [exam.to_json() for exam in exams], "kept_epoch": kept,
    }
