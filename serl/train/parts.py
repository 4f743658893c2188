"""What the parts of actions did, asked of the database: for the teacher of the level `exec+clauses`, and for credit.

    samples ─ serl.hindsight.parts ─▶ statements ─ sandbox ─▶ PartAnswers ─▶ Sample.known.parts

The statements of a whole batch run at once, under the limits of any other SQL; the same action on the same database is
asked about once. Rewards, and what the student reads, are made before and without it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from serl.config import Config
from serl.config.hindsight import CLAUSES
from serl.hindsight.parts.asks import asks, found
from serl.hindsight.teacher_only import PartAnswers
from serl.sql.outcome import Status
from serl.sql.sandbox import Sandbox
from serl.train.samples import Sample

Action = tuple[Path | str, str, Status]  # database, SQL, and how the SQL ended


def tells_parts(config: Config) -> bool:
    """Whether the teacher of a run is told of parts."""
    return config.hindsight.level == CLAUSES


def ask_parts(sandbox: Sandbox, actions: Sequence[Action]) -> list[PartAnswers]:
    """What the parts of each action did, in the order of the actions; no findings where nothing could be asked."""
    asked = {action: asks(action[1], action[2], sandbox.dialect) for action in dict.fromkeys(actions)}
    jobs = [(database, ask.statement) for (database, _, _), its in asked.items() for ask in its]
    outcomes = iter(sandbox.run_many(jobs))
    answers = {action: PartAnswers(found(its, [next(outcomes) for _ in its])) for action, its in asked.items()}
    return [answers[action] for action in actions]


def add_parts(sandbox: Sandbox, samples: Sequence[Sample], databases: Sequence[Path | str]) -> list[Sample]:
    """Samples that know what the parts of their actions did; `databases` are theirs."""
    actions = [[(database, turn.parsed.sql, turn.outcome.status) for turn in sample.trajectory.turns
                if turn.outcome is not None and turn.parsed.sql is not None]
               for sample, database in zip(samples, databases, strict=True)]
    answers = iter(ask_parts(sandbox, [action for own in actions for action in own]))
    return [replace(sample, known=replace(sample.known, parts={sql: next(answers) for _, sql, _ in own}))
            for sample, own in zip(samples, actions)]
