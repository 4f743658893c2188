"""Grounding itself and the baselines behind one face, so that all are measured by the same lines."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from experiments.bench.grounding_baselines.bm25 import Bm25
from experiments.bench.grounding_baselines.bm25_lcs import Bm25Lcs
from experiments.bench.grounding_baselines.cells import read_cells
from experiments.bench.grounding_baselines.dense import Dense
from experiments.bench.grounding_baselines.exact_trigram import ExactTrigram
from experiments.bench.grounding_baselines.minhash_lsh import MinHashLsh
from grounding import Grounder, GroundingConfig, Request
from grounding.embed import find_encoder
from grounding.evaluate.value_task import Found


class Method(Protocol):
    """A baseline; its indices can be pickled, and have `cells`."""

    def build(self, database: Path) -> Any: ...

    def search(self, index: Any, question: str, evidence: str, k: int) -> list[Found]: ...


class Contender(Protocol):
    """A method with its indices in a folder."""

    def build(self, database: Path) -> None:
        """Makes the database's index, and writes it."""

    def load(self, database: Path) -> None:
        """Opens an index that another process may have made."""

    def indexed(self, database: Path) -> int:
        """How many (table, column, value) of an opened database it holds."""

    def search(self, database: Path, question: str, evidence: str, k: int) -> list[Found]:
        """The k best of an opened database, best first."""


class Ours:
    """`grounding.Grounder`, linking included, asked to keep whatever it ranks."""

    def __init__(self, folder: Path, encoder: str, k: int):
        self.grounder = Grounder(folder, encoder, GroundingConfig(top_values=k, min_score=0.0))

    def build(self, database: Path) -> None:
        self.grounder.open(database)

    load = build  # it is opened where it is there

    def indexed(self, database: Path) -> int:
        # What it keeps of them is its own affair (spellings folded, a cap a column): all are its work.
        return len(read_cells(database))

    def search(self, database: Path, question: str, evidence: str, k: int) -> list[Found]:
        values = self.grounder.ground(Request(question, database, evidence)).values
        return [(match.table, match.column, match.value) for match in values[:k]]


class Pickled:
    """A baseline; its index of a database is one pickle."""

    def __init__(self, folder: Path, method: Method):
        self.folder, self.method = folder, method
        self.opened: dict[Path, Any] = {}

    def build(self, database: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self._file(database), "wb") as file:
            pickle.dump(self.method.build(database), file, protocol=pickle.HIGHEST_PROTOCOL)

    def load(self, database: Path) -> None:
        with open(self._file(database), "rb") as file:
            self.opened[database] = pickle.load(file)

    def indexed(self, database: Path) -> int:
        return len(self.opened[database].cells)

    def search(self, database: Path, question: str, evidence: str, k: int) -> list[Found]:
        return self.method.search(self.opened[database], question, evidence, k)

    def _file(self, database: Path) -> Path:
        key = hashlib.sha256(str(database.resolve()).encode()).hexdigest()[:12]
        return self.folder / f"{database.stem}-{key}.pickle"


CONTENDERS: dict[str, tuple[str, Callable[[Path, int], Contender]]] = {
    "chess": ("MinHash LSH as CHESS, its columns", lambda folder, k: Pickled(
        folder, MinHashLsh(find_encoder("minilm"), filtered=True))),
    "chess-all": ("MinHash LSH as CHESS, all columns", lambda folder, k: Pickled(
        folder, MinHashLsh(find_encoder("minilm"), filtered=False))),
    "codes": ("BM25, then LCS, as CodeS", lambda folder, k: Pickled(folder, Bm25Lcs())),
    "bm25": ("BM25", lambda folder, k: Pickled(folder, Bm25())),
    "trigram": ("exact and trigram", lambda folder, k: Pickled(folder, ExactTrigram())),
    "dense": ("dense (MiniLM, flat)", lambda folder, k: Pickled(folder, Dense(find_encoder("minilm")))),
    "ours-lexical": ("grounding, no encoder", lambda folder, k: Ours(folder, "none", k)),
    "ours": ("grounding", lambda folder, k: Ours(folder, "minilm", k)),
}
"""Name → what it is, and how it is made from its folder and the length of its rankings."""
