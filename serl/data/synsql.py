"""Reader of SynSQL's layout (SynSQL-2.5M, of OmniSQL, arXiv 2503.02240): millions of questions, read as a stream.

    ROOT/{split}.json | .jsonl | .parquet, or ROOT/{split}-*.jsonl | -*.parquet in parts
                                         db_id, sql_complexity, question, external_knowledge, cot, sql
    ROOT/databases/DB/DB.sqlite          ROOT/tables.json            names and foreign keys; may be absent

Its own file is data.json, so its split is called data. sql_complexity (Simple, Moderate, Complex, Highly Complex) is
the level that `Sample` balances. Records have no id: theirs is a hash of what they ask, so that it is the same in each
of the formats, and a record that comes twice is read once. A record without one of these texts (external_knowledge and
cot may be missing), or without a database, is left out, counted and named.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Any

from serl.data.balance import WHOLE, Sample, balanced
from serl.data.example import Example
from serl.data.records import first_existing, require_root
from serl.data.stream import Broken, records
from serl.errors import InputError

COLUMNS = ("db_id", "sql_complexity", "question", "external_knowledge", "cot", "sql")
_TEXTS, _OPTIONAL = ("db_id", "sql_complexity", "question", "sql"), ("external_knowledge", "cot")
_NAMED = 3  # records and databases that a warning names
_log = logging.getLogger(__name__)


def load_synsql(root: Path | str, split: str, sample: Sample = WHOLE) -> list[Example]:
    """The sample's questions in the file's order; nothing else of the file is kept in memory.

    Warns of what is left out. InputError where a file is missing or cannot be read on, and where nothing is left.
    """
    root = require_root(root, "SynSQL")
    files = _files(root, split)
    databases = first_existing([root / "databases" / "databases", root / "databases"], "SynSQL's databases")
    state = tuple((file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return list(_read(root, tuple(files), state, databases, split, sample))


def _files(root: Path, split: str) -> list[Path]:
    found = [[path] for ending in ("json", "jsonl", "parquet") if (path := root / f"{split}.{ending}").is_file()]
    found += [parts for ending in ("jsonl", "parquet") if (parts := sorted(root.glob(f"{escape(split)}-*.{ending}")))]
    if not found:
        raise InputError(f"SynSQL's {split} questions not found, looked in {root} for {split}.json, .jsonl, .parquet "
                         f"and parts named {split}-*; its own file is data.json, so its split is called data")
    if len(found) > 1:
        raise InputError(f"{root}: both {found[0][0].name} and {found[1][0].name}; leave one of them")
    return found[0]


@lru_cache(maxsize=2)  # a run asks several times, and gigabytes take minutes
def _read(root: Path, files: tuple[Path, ...], state: tuple, databases: Path, split: str, sample: Sample
          ) -> tuple[Example, ...]:
    reading = _Reading(root, files, databases, split)
    examples = balanced(reading.examples(), sample)
    reading.report(sample, Counter(example.difficulty.casefold() for example in examples))
    if not examples:
        levels = ", ".join(f"{level} ({count})" for level, count in sorted(reading.levels.items())) or "none"
        raise InputError(f"{files[0]}: no question to be read; of {reading.count} records {reading.malformed} are "
                         f"malformed, {reading.missing.total()} lack their database, levels of the others: {levels}")
    return tuple(examples)


class _Reading:
    """One pass over the files: what it has come across."""

    def __init__(self, root: Path, files: tuple[Path, ...], databases: Path, split: str) -> None:
        self.files, self.databases, self.split = files, databases, split
        tables = root / "tables.json"
        self.tables = tables if tables.exists() else None
        self.count = self.malformed = 0
        self.named: list[str] = []  # malformed records: where and why
        self.missing: Counter[str] = Counter()  # questions by database that is not there
        self.levels: Counter[str] = Counter()
        self.known: dict[str, Path | None] = {}

    def examples(self) -> Iterator[Example]:
        for file in self.files:
            for place, record in records(file, COLUMNS):
                example = self.example(file, place, record)
                self.count += 1
                if example is not None:
                    self.levels[example.difficulty] += 1
                    yield example

    def example(self, file: Path, place: str, record: Any) -> Example | None:
        if (reason := _wrong(record)) is not None:
            self.malformed += 1
            if len(self.named) < _NAMED:
                self.named.append(f"{file.name}, {place}: {reason}")
            return None
        db_id = record["db_id"]
        if db_id not in self.known:
            path = self.databases / db_id / f"{db_id}.sqlite"
            self.known[db_id] = path if path.exists() else None
        if (db_path := self.known[db_id]) is None:
            self.missing[db_id] += 1
            return None
        evidence, reasoning = (record.get(name) or "" for name in _OPTIONAL)
        return Example(question_id=_id_of(record), db_id=db_id, question=record["question"], evidence=evidence,
                       gold_sql=record["sql"], difficulty=record["sql_complexity"], db_path=db_path, split=self.split,
                       position=self.count, reasoning=reasoning, tables_path=self.tables)

    def report(self, sample: Sample, kept: Counter[str]) -> None:
        path = self.files[0]
        if self.malformed:
            _log.warning("%s: skipped %d of %d records, which are malformed: %s%s", path, self.malformed, self.count,
                         "; ".join(self.named), "; ..." if self.malformed > len(self.named) else "")
        if self.missing:
            some = ", ".join(f"{name} ({count})" for name, count in self.missing.most_common(_NAMED))
            _log.warning("%s: skipped %d questions without a database in %s: %d databases are missing, as %s", path,
                         self.missing.total(), self.databases, len(self.missing), some)
        for level in sample.levels or sorted(self.levels):
            if sample.per_level is not None and kept[level.casefold()] < sample.per_level:
                _log.warning("%s: %d questions of level %s, fewer than the %d asked for", path, kept[level.casefold()],
                             level, sample.per_level)


def _wrong(record: Any) -> str | None:
    """What is wrong with a record, None if nothing is."""
    if isinstance(record, Broken):
        return record.reason
    if not isinstance(record, dict):
        return f"should be an object, is {type(record).__name__}"
    for name in _TEXTS:
        if not isinstance(record.get(name), str) or not record[name].strip():
            return f'"{name}" is missing or not a text'
    for name in _OPTIONAL:
        if not isinstance(record.get(name), (str, type(None))):
            return f'"{name}" is not a text'
    if Path(record["db_id"]).name != record["db_id"]:
        return f'"db_id" {record["db_id"]!r} is no name of a folder'
    return None


def _id_of(record: dict[str, Any]) -> str:
    asked = "\0".join(record.get(name) or "" for name in ("db_id", "question", "external_knowledge", "sql"))
    return hashlib.blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
