"""Is the teacher's gap evidence? Only if its blame finds wrong tokens better than that of its controls.

Controls are the same teacher's gap under hindsight that says nothing of the action (the empty frame, another sample's,
a verdict that is flipped), and the student's own −logp and entropy, which need no teacher. To beat one means that the
95% interval of the difference of the two AUCs, on the same tokens, with questions resampled, lies above 0.
"""

from serl.hindsight.credit.mistakes import Lead, Row, Table, auc_text

FEWEST_QUESTIONS = 8
"""Below this many questions with a failed SQL there is no verdict: an interval over so few means little."""


def gate(table: Table) -> str | None:
    """One line that says which gaps do not beat which controls; None if all do, or if there are too few questions."""
    tested = [row for row in table.rows if row.leads and row.overall.questions >= FEWEST_QUESTIONS]
    failed = [_failed(row) for row in tested if not all(lead.won for lead in row.leads)]
    return "; ".join(failed) if failed else None


def _failed(row: Row) -> str:
    lost = ", ".join(f"{lead.control} ({_lead_text(lead)})" for lead in row.leads if not lead.won)
    return (f"the {row.source} under {row.hindsight} hindsight has AUC {auc_text(row.overall)} for the tokens that "
            f"make SQL wrong and does not beat {lost}: its credit is not shown to find mistakes")


def _lead_text(lead: Lead) -> str:
    return "–" if lead.value is None else f"lead {lead.value:+.2f}, {lead.low:+.2f} to {lead.high:+.2f}"
