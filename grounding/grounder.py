"""Grounding from end to end: question and database in, grounded schema out; many questions in one encoded batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grounding.embed import CachedEncoder, find_encoder
from grounding.grounded import ColumnSamples, GroundedSchema, GroundingConfig, LinkedTable, Request
from grounding.index import ValueIndex
from grounding.link import link
from grounding.mentions import Mention, find_mentions
from grounding.retrieve import confident, retrieve
from grounding.schema import Database
from grounding.text import content_stems

REQUESTS_A_BATCH = 512  # bounds the vectors held at once: 512 requests × 32 mentions × 384 floats are 25 MB
OPEN_DATABASES = 256  # indices held at once; each is an open file and, once searched, its vectors in memory


@dataclass(frozen=True)
class _Opened:
    """A database that has been read, and its index."""

    database: Database
    index: ValueIndex


class Grounder:
    """Grounds questions about any number of databases; their indices are built under `cache_dir` when first needed.

    `encoder` is `minilm` (the packaged all-MiniLM-L6-v2), a folder with a sentence-transformers model, or `none` for
    the exact and trigram channels alone.
    """

    def __init__(
        self,
        cache_dir: Path,
        encoder: str = "minilm",
        config: GroundingConfig = GroundingConfig(),
        progress: bool = False,
    ):
        self.cache_dir = Path(cache_dir)
        self.config = config
        found = find_encoder(encoder)
        self._encoder = CachedEncoder(found, self.cache_dir / "vectors", progress) if found else None
        self._opened: dict[tuple, _Opened] = {}

    def ground(self, request: Request) -> GroundedSchema:
        """S' of one question. Raises InputError for a database that cannot be read."""
        return self.ground_many([request])[0]

    def ground_many(self, requests: Sequence[Request]) -> list[GroundedSchema]:
        """S' of each request, in order; the mentions of up to 512 requests are encoded together."""
        return [
            grounded
            for start in range(0, len(requests), REQUESTS_A_BATCH)
            for grounded in self._ground_batch(requests[start : start + REQUESTS_A_BATCH])
        ]

    def open(self, db_path: Path, description_dir: Path | None = None) -> tuple[Database, ValueIndex]:
        """The database's schema and its value index, which is built now if it is not there yet."""
        path = Path(db_path)
        # A file that has changed since it was opened is opened anew. A missing one is left for Database to report.
        stat = path.stat() if path.exists() else None
        key = (path, description_dir, stat and stat.st_mtime_ns, stat and stat.st_size)
        opened = self._opened.pop(key, None)
        if opened is None:
            database = Database.read(path, description_dir)
            opened = _Opened(database, ValueIndex.open(database, self.cache_dir, self._encoder, self.config))
        self._opened[key] = opened  # last: the dictionary is in order of use
        if len(self._opened) > OPEN_DATABASES:
            del self._opened[next(iter(self._opened))]
        return opened.database, opened.index

    def _ground_batch(self, requests: Sequence[Request]) -> Iterator[GroundedSchema]:
        mentions = [find_mentions(r.question, r.evidence, self.config.max_mentions) for r in requests]
        vectors = self._encode(mentions)
        for request, found in zip(requests, mentions):
            yield self._ground(request, found, vectors)

    def _encode(self, mentions: Sequence[Sequence[Mention]]) -> dict[str, np.ndarray] | None:
        """Unit vectors by mention text; None without an encoder."""
        texts = list(dict.fromkeys(mention.text for found in mentions for mention in found))
        if self._encoder is None or not texts:
            return None
        return dict(zip(texts, self._encoder.encode(texts)))

    def _ground(
        self, request: Request, mentions: Sequence[Mention], vectors: dict[str, np.ndarray] | None
    ) -> GroundedSchema:
        database, index = self.open(request.db_path, request.description_dir)
        stems = frozenset(content_stems(f"{request.question} {request.evidence}"))
        stacked = np.stack([vectors[mention.text] for mention in mentions]) if vectors and mentions else None
        values = retrieve(index, mentions, stacked, stems, self.config.top_values)
        if self.config.min_score > 0:
            values = confident(values, self.config.min_score)
        tables = link(database, stems, values, self.config)
        return GroundedSchema(database, tables, values, self._samples(index, database, tables))

    def _samples(
        self, index: ValueIndex, database: Database, tables: Sequence[LinkedTable]
    ) -> tuple[ColumnSamples, ...]:
        """Frequent values of the text columns, keys apart, that the question gives evidence for."""
        samples = []
        for table in tables if self.config.samples else ():
            columns = database.by_name[table.name.lower()].by_name
            for linked in table.columns:
                is_text = columns[linked.name.lower()].type == "text" and not linked.is_key
                if is_text and linked.has_evidence:
                    values = index.samples(table.name, linked.name, self.config.samples)
                    samples.append(ColumnSamples(table.name, linked.name, values))
        return tuple(samples)
