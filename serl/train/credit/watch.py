"""The gap against its controls during training: `hindsight.gate_every`, and a warning where it fails.

Measured on the failed samples of one step, with the teacher and the student as they are before its update. Nothing of
it reaches the update.
"""

import sys
from collections.abc import Callable, Sequence

from tqdm import tqdm

from serl.config import Config
from serl.hindsight.credit.candidate import Piece
from serl.hindsight.credit.gate import gate
from serl.hindsight.credit.mistakes import Table
from serl.train.credit.contexts import Case, make_contexts
from serl.train.credit.measure import Judge, gather, measure
from serl.train.groups import Group

MOST = 64
"""Failed samples that are scored again: enough for intervals of some hundredths, and little beside a step's work."""


class Watch:
    """Measures on the schedule of a config, and warns once."""

    def __init__(self, config: Config, encode: Callable[[str], list[int]], piece: Piece, warns: bool = True) -> None:
        self.config, self.encode, self.piece = config, encode, piece
        self._warns = warns

    def is_due(self, step: int, lam: float) -> bool:
        options = self.config.hindsight
        return bool(options.gate_every and step % options.gate_every == 0 and lam and options.source == "teacher_gap")

    def metrics(self, step: int, groups: Sequence[Group], student, teacher) -> dict[str, float]:
        """`gate/...` metrics of a step's samples: AUC of the gap and of each control, and its lead over each."""
        cases = [[Case(sample, group.question.example, group.question.gold) for sample in group.samples]
                 for group in groups]
        options = self.config.hindsight
        batch = gather(cases, self.piece, MOST, self.config.seed)
        table = measure(batch, student, [Judge(options.teacher.mode, teacher, (options.gap,))],
                        make_contexts(batch.cases, self.encode, self.config, [options.level]), self.config)
        message = gate(table)
        if message is not None and self._warns:
            self._warns = False
            tqdm.write(f"warning: step {step}: {message}; `serl credit` shows more", file=sys.stderr)
        return gate_metrics(table, options.level)


def gate_metrics(table: Table, level: str) -> dict[str, float]:
    """`gate/auc`, and for each control `gate/lead/NAME` with the low end `gate/lead_low/NAME` of its interval."""
    metrics = {"gate/failures": float(table.samples)}
    for row in table.rows:
        if row.hindsight == level and row.leads and row.overall.value is not None:
            metrics["gate/auc"] = row.overall.value
            for lead in row.leads:
                if lead.value is not None:
                    name = lead.control.replace(" ", "_").replace("−", "")
                    metrics |= {f"gate/lead/{name}": lead.value, f"gate/lead_low/{name}": lead.low}
    return metrics
