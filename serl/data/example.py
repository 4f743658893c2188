"""One question with its database and gold query: what every reader of a data format returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A text-to-SQL question."""

    question_id: str
    """Unique within a split."""
    db_id: str
    question: str
    evidence: str
    """External knowledge that comes with the question (BIRD), "" where there is none."""
    gold_sql: str
    difficulty: str
    """The data set's own word for it (BIRD: simple, moderate, challenging), "" where there is none."""
    db_path: Path
    """The SQLite file; it exists."""
    split: str
    description_dir: Path | None = None
    """BIRD's folder of column descriptions, None where there is none."""
    position: int = -1
    """Place in the split's file, from 0, questions that the reader leaves out counted."""
    reasoning: str = ""
    """The data set's own way to gold in words (SynSQL: cot), "" where there is none; only fine-tuning may show it."""
    interaction: str | None = None
    """Id of the dialogue that the question is a turn of, None where it stands alone; turns follow each other."""
    turn: int | None = None
    """The turn's number in its dialogue, from 1, None where the question stands alone."""
    tables_path: Path | None = None
    """tables.json with the names and foreign keys of the databases, None where there is none."""
