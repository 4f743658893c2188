"""`serl credit`: the table of a run folder, from its trajectories, its checkpoints and its data.

    teacher           its weights
    as recorded       the run's teacher at each step, by the log-probs that records keep: nothing of a control is known
    synchronized      the student's at the checkpoint: a live teacher, or a periodic one that was copied just now
    MODE, N behind    the run's teacher at the checkpoint, N updates behind
    NAME              those of a folder that the command line names
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from serl.config import Config
from serl.errors import InputError
from serl.hindsight.credit import revealed
from serl.hindsight.credit.difference import Span
from serl.hindsight.credit.mistakes import Failure, Table, markdown
from serl.hindsight.facts import know
from serl.hindsight.parts.part import Finding
from serl.hindsight.teacher import Teacher
from serl.hindsight.teacher_only import GoldAnswer
from serl.io import atomic_write_text
from serl.train.checkpoint import STATE, load_state
from serl.train.credit.contexts import Case, make_contexts
from serl.train.credit.measure import Batch, Judge, gather, measure
from serl.train.credit.replay import check_rows, group_of, newest_weights, read_groups, recorded_steps
from serl.train.parts import add_parts
from serl.train.teach.card import seen_by
from serl.view.credit import credit_picture
from serl.workbench import Workbench, open_workbench


@dataclass(frozen=True)
class Measured:
    """A table, and what it was made from."""

    run: Path
    steps: tuple[int, ...]
    checkpoint: Path
    table: Table
    parts: tuple[revealed.Revealed, ...]

    @property
    def heading(self) -> str:
        """What the numbers are, in a line or two."""
        table, steps = self.table, ", ".join(map(str, self.steps))
        return (f"{self.run}: {table.samples} failed samples of step {steps}; weights of {self.checkpoint}; left out: "
                f"{table.unexplained} without a difference to gold or without SQL, {table.unparsed} that cannot be "
                f"parsed\nAUC of blame for wrong tokens (95% interval over questions); uncertain: -log p above "
                f"{table.threshold} nats")

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run), "steps": list(self.steps), "checkpoint": str(self.checkpoint),
                **self.table.to_json(), "parts": [row.to_json() for row in self.parts]}

    @property
    def markdown(self) -> str:
        """The table of blame, and what executing parts of the same failed SQL reveals by itself."""
        return (f"{self.heading}\n\n{markdown(self.table)}\n\nParts of the failed SQL that differ from gold and that "
                f"do not, and what executing them says (serl.hindsight.parts.signs):\n\n"
                f"{revealed.markdown(self.parts)}")


def measure_run(run: Path, config: Config, steps: Sequence[int] | int, checkpoint: Path | None,
                teachers: Sequence[Path], limit: int) -> Measured:
    """The table of a run's steps (a number: of its last ones) at a checkpoint (None: its newest)."""
    check_rows(run, config)
    steps = recorded_steps(run)[-steps:] if isinstance(steps, int) else steps
    records = read_groups(run, steps)
    weights = checkpoint or newest_weights(run)
    with open_workbench(config, str(weights)) as bench:
        groups = [_cases(group, bench) for group in records]
        batch = gather(groups, bench.env.token_bytes.of, limit, config.seed)
        if not batch.cases:
            raise InputError(f"{run}: no failed SQL with a difference to gold in step {', '.join(map(str, steps))}; "
                             "give other steps with --step")
        batch = _with_parts(batch, bench)
        judges = [Judge("synchronized", bench.model, ("teacher_student",), against_empty=True),
                  *_own_teacher(weights, bench)]
        for path in teachers:
            _warn_of_seen(path, batch)
            judges.append(Judge(path.name, bench.beside(str(path), "--teacher"),
                                ("teacher_student", "hindsight_only"), against_empty=True))
        contexts = make_contexts(batch.cases, bench.encode, config)
        passes = 2 + sum(len(contexts.by_name) for _ in judges)
        with tqdm(total=passes, desc="credit", unit="pass") as bar:
            table = measure(batch, bench.model, judges, contexts, config, bar.update)
    parts = revealed.revealed(map(_parts_and_mistakes, batch.failures.found, batch.cases))
    return Measured(run, tuple(steps), weights, table, tuple(parts))


def write_report(measured: Measured, folder: Path) -> None:
    """Write credit.json, credit.md and credit.png into a folder."""
    atomic_write_text(folder / "credit.json", json.dumps(measured.to_json(), ensure_ascii=False) + "\n")
    atomic_write_text(folder / "credit.md", f"{measured.markdown}\n")
    credit_picture(measured.table, measured.run.resolve().name, folder / "credit.png")


def _cases(records: Sequence[dict[str, Any]], bench: Workbench) -> list[Case]:
    """One question's records as cases."""
    split = bench.preparer.load_split(bench.config.data.train_split, bench.config.data.max_train)
    question_id = records[0]["question_id"]
    found = [example for example in split.examples if example.question_id == question_id]
    if not found or found[0].gold_sql != records[0]["gold_sql"]:
        raise InputError(f"{bench.config.data.root}: question {question_id} of the trajectories is not in its split "
                         f"{split.name}; give the run's data with --data.root")
    gold, samples = split.gold[question_id], group_of(records, bench.env.token_bytes.of)
    finals, correct = zip(*((sample.trajectory.final_sql, sample.correct) for sample in samples))
    known = know(question_id, finals, correct, GoldAnswer(found[0].gold_sql, gold))
    return [Case(replace(sample, known=each), found[0], gold) for sample, each in zip(samples, known)]


def _own_teacher(weights: Path, bench: Workbench) -> list[Judge]:
    """The run's own teacher at a checkpoint, whatever its mode, if it lagged behind the student then."""
    hindsight = bench.config.hindsight
    if hindsight.source != "teacher_gap" or hindsight.teacher.mode == "live" or not (weights / STATE).is_file():
        return []
    state = load_state(weights)["teacher"]
    if not state["updates_behind"]:
        return []  # it is the synchronized one
    teacher = Teacher(bench.model, hindsight.teacher, bench.own_teacher)
    teacher.load_state_dict(state)
    return [Judge(f"{hindsight.teacher.mode}, {state['updates_behind']:g} behind", teacher.model, (hindsight.gap,))]


def _with_parts(batch: Batch, bench: Workbench) -> Batch:
    """The batch with what the parts of its actions did: records do not keep it, so the database is asked again."""
    samples = add_parts(bench.sandbox, [case.sample for case in batch.cases],
                        [case.example.db_path for case in batch.cases])
    return replace(batch, cases=tuple(replace(case, sample=sample) for case, sample in zip(batch.cases, samples)))


def _parts_and_mistakes(failure: Failure, case: Case) -> tuple[Sequence[Finding], Sequence[Span]]:
    """What was found of a failed SQL's parts, and its wrong characters."""
    sql = failure.candidate.sql
    return case.sample.known.parts[sql].findings, failure.comparer(sql, failure.gold.sql).wrong


def _warn_of_seen(teacher: Path, batch: Batch) -> None:
    """Say on stderr if a teacher was trained on some of the questions that it is measured on."""
    measured = {failure.question for failure in batch.failures.found}
    seen = len(measured & seen_by(teacher))
    if seen:
        print(f"warning: teacher {teacher} was trained on trajectories of {seen} of these {len(measured)} questions: "
              "its figures say little of others; give other steps", file=sys.stderr)
