"""Inferred foreign keys against declared ones: those that a database declares are hidden, inferred, and compared.

A column pair counts as found where it is inferred in the declared direction. Precision is the share of the inferred
pairs that are declared, recall the share of the declared ones that are inferred. Precision is a lower bound: data sets
leave keys undeclared. Databases that declare none are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from grounding.errors import InputError
from grounding.evaluate.value_task import Recall, ratio
from grounding.infer import infer_keys
from grounding.schema import DECLARED, Database, ForeignKey
from grounding.sqlite import connect_readonly

Pair = tuple[tuple[str, str], tuple[str, str]]
"""(table, column) and what it refers to."""


@dataclass(frozen=True)
class KeyCounts:
    """One database's declared and inferred pairs."""

    db_id: str
    declared: frozenset[Pair]
    inferred: frozenset[Pair]


@dataclass(frozen=True)
class KeyReport:
    """Precision and recall over all pairs, with intervals over databases, and each database's pairs."""

    measures: dict[str, Recall]
    databases: tuple[KeyCounts, ...]
    left_out: dict[str, str]
    """Why, by path, databases are not among these."""

    def to_json(self) -> dict:
        return {
            "keys": {name: asdict(measure) for name, measure in self.measures.items()},
            "databases": [
                {
                    "db_id": counts.db_id,
                    "declared": len(counts.declared),
                    "inferred": len(counts.inferred),
                    "missed": _named(counts.declared - counts.inferred),
                    "not_declared": _named(counts.inferred - counts.declared),
                }
                for counts in self.databases
            ],
            "left_out": self.left_out,
        }

    def for_people(self) -> str:
        """Percent, with 95% intervals."""
        lines = [f"{'inferred keys':24s}{'pairs':>8s}"]
        lines += [f"{name:24s}{each.targets:>8d}  {each.in_percent()}" for name, each in self.measures.items()]
        return "\n".join([*lines, "", f"{len(self.databases):6d}  databases with declared keys",
                          f"{len(self.left_out):6d}  left out"])  # fmt: skip


def evaluate_keys(paths: Sequence[Path]) -> KeyReport:
    """Hides and infers the keys of every database that declares some; InputError if none does."""
    from tqdm import tqdm

    databases, left_out = [], {}
    for path in tqdm(paths, unit="database", desc="inferring keys"):
        try:
            counts = count_keys(path)
        except InputError as error:
            left_out[str(path)] = str(error)
            continue
        if counts.declared:
            databases.append(counts)
        else:
            left_out[str(path)] = "it declares no foreign keys"
    if not databases:
        raise InputError(f"none of {len(paths)} databases declares a foreign key; there is nothing to compare with")
    return KeyReport(_measures(databases), tuple(databases), left_out)


def count_keys(path: Path) -> KeyCounts:
    """One database's pairs, inferred as if it declared none; its tables.json is not asked."""
    database = Database.read(path, infer_keys=False)
    declared = [key for key in database.foreign_keys if key.origin == DECLARED]
    with closing(connect_readonly(path)) as connection:
        inferred = infer_keys(connection, database.tables, ())
    return KeyCounts(database.db_id, _pairs(declared), _pairs(inferred))


def _pairs(keys: Sequence[ForeignKey]) -> frozenset[Pair]:
    return frozenset(((key.table, key.column), (key.ref_table, key.ref_column)) for key in keys)


def _named(pairs: frozenset[Pair]) -> list[str]:
    return sorted(f"{'.'.join(own)} -> {'.'.join(ref)}" for own, ref in pairs)


def _measures(databases: Sequence[KeyCounts], seed: int = 0) -> dict[str, Recall]:
    found = [len(counts.declared & counts.inferred) for counts in databases]
    measures = {"recall": ratio(found, [len(counts.declared) for counts in databases], seed)}
    if any(counts.inferred for counts in databases):
        measures["precision"] = ratio(found, [len(counts.inferred) for counts in databases], seed)
    return measures
