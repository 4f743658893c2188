"""What goes into grounding and what comes out: plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grounding.errors import InputError
from grounding.schema import Database

MODES = ("hybrid", "full", "oracle")
EVIDENCE_REASONS = frozenset({"name", "description", "similar", "value", "reasoning", "gold"})


@dataclass(frozen=True)
class Links:
    """Tables and columns that somebody named, a model or gold SQL; by `fold_name`, as SQLite compares names."""

    tables: frozenset[str] = frozenset()
    columns: frozenset[tuple[str, str]] = frozenset()
    """(table, column); their tables are among `tables`."""


@dataclass(frozen=True)
class GroundingConfig:
    """Options of a Grounder."""

    mode: str = "hybrid"
    """hybrid: tables and columns with evidence, closed over keys and join paths; full: all, the linked ones marked;
    oracle: the request's `gold_links` closed over keys, which shows what a perfect linker would be worth."""
    top_values: int = 10
    """How many matched values (V_q) to keep for a question."""
    min_score: float = 0.75
    """Matched values scoring less (0 to 1) are dropped, runners-up of exact matches too; 0 keeps all top_values."""
    link_score: float = 0.75
    """From this score on a matched value is evidence for its column."""
    link_similarity: float | None = 0.6
    """From this cosine to a mention on, −1 to 1, a column's name is evidence for it (`similar`); None: it only decides
    in which order a budget cuts. Without an encoder there is none. On 237 questions about Spider's train databases,
    with nothing kept whole, 94.1% keep all of gold's columns, instead of 89.0% (at 0.5: 96.2%, at 0.7: 92.8%), and
    43.0% of the tokens are saved, instead of 48.5% (38.0%, 46.1%)."""
    max_mentions: int = 32
    """How many mentions of a question and its evidence are looked up."""
    max_values_per_column: int = 250_000
    """Distinct texts, and distinct numbers, of a column that are indexed: the frequent first, then an even spread of
    the rest. It bounds an index of long texts; few columns of real databases reach it."""
    max_embedded_per_column: int = 10_000
    """How many of a column's texts are embedded, in the same order: 400 take a second of a processor."""
    numbers: bool = True
    """Whether to index the numbers of columns whose numbers name things (see values.py), for the exact channel."""
    max_value_chars: int = 200
    """Longer text is cut to this many characters before it is indexed."""
    keep_all_columns: int = 30
    """A database with at most this many columns is kept whole in hybrid mode: a cut would risk more than it saves."""
    keep_table_columns: int = 12
    """A table with evidence and at most this many columns is kept whole, for the same reason."""
    samples: int = 3
    """Frequent values carried along for each linked text column, for prompts that show samples."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"grounding mode {self.mode!r} is unknown; use one of {', '.join(MODES)}")


@dataclass(frozen=True)
class Request:
    """A question about one database."""

    question: str
    db_path: Path
    evidence: str = ""
    description_dir: Path | None = None
    """Folder with BIRD's description CSVs; None looks for `database_description` beside the database file."""
    tables_json: Path | None = None
    """BIRD's or Spider's tables.json; None looks for it where the data set has it."""
    gold_links: Links | None = None
    """What gold SQL uses: for mode oracle, which cannot do without, and refused in every other mode."""


@dataclass(frozen=True)
class ValueMatch:
    """A stored value that a mention of the question may mean."""

    table: str
    column: str
    value: str
    score: float
    """Similarity to the closest mention, 0 to 1."""
    channel: str
    """Where that similarity comes from: exact, trigram, dense, or code (it abbreviates the mention)."""
    mention: int = 0
    """Which mention that is, by its place among the question's."""
    stored: str = "text"
    """text, integer or real: how it is stored, and so whether SQL writes it in quotes."""


@dataclass(frozen=True)
class LinkedColumn:
    name: str
    why: tuple[str, ...]
    """reasoning, value, name, description, similar, gold: evidence. primary key, foreign key, inferred, join path:
    structure. Or why it was kept without either: see link.py."""
    score: float = 0.0
    """Its evidence, and the likeness of its name to what the question says: see link.py."""

    @property
    def has_evidence(self) -> bool:
        return not EVIDENCE_REASONS.isdisjoint(self.why)

    @property
    def is_key(self) -> bool:
        return "primary key" in self.why or "foreign key" in self.why


@dataclass(frozen=True)
class LinkedTable:
    name: str
    columns: tuple[LinkedColumn, ...]


@dataclass(frozen=True)
class ColumnSamples:
    """Frequent values of one column."""

    table: str
    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class GroundedSchema:
    """S': what of the database a question needs. Tables, their columns and the values are best first."""

    database: Database
    tables: tuple[LinkedTable, ...]
    values: tuple[ValueMatch, ...]
    samples: tuple[ColumnSamples, ...] = ()
    reasoned: bool | None = None
    """Whether a model's answer is among the links; False: it gave none that could be used. None: none was asked."""
    warnings: tuple[str, ...] = ()
    """What was not done as it was asked for, one line each: an answer that could not be used, tables left out of a
    model's prompt."""

    def to_json(self) -> dict:
        """The document that `grounding query --json` prints; `warnings` is in it where there are any."""
        document = {
            "tables": [
                {"name": table.name, "columns": [{"name": c.name, "why": list(c.why)} for c in table.columns]}
                for table in self.tables
            ],
            "values": [
                {
                    "table": match.table,
                    "column": match.column,
                    "value": match.value,
                    "score": round(match.score, 4),
                    "channel": match.channel,
                }
                for match in self.values
            ],
        }
        return document | ({"warnings": list(self.warnings)} if self.warnings else {})
