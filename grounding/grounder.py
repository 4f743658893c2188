"""Grounding from end to end: question and database in, grounded schema out; many questions in one encoded batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from grounding.embed import CachedEncoder, Encoder, find_encoder
from grounding.grounded import ColumnSamples, GroundedSchema, GroundingConfig, LinkedTable, Request, ValueMatch
from grounding.index import ValueIndex
from grounding.io import file_state
from grounding.link import link
from grounding.mentions import Mention, find_mentions, find_spans
from grounding.retrieve import confident, retrieve
from grounding.retrieve.channels import Asked
from grounding.retrieve.profile import Profile
from grounding.schema import Database
from grounding.sqlite import content_files, fold_name
from grounding.text import content_stems

REQUESTS_A_BATCH = 512  # bounds the vectors held at once: 512 requests × 32 mentions × 384 floats are 25 MB
OPEN_DATABASES = 256  # indices held at once; each is an open file and, once searched, a mapped one


@dataclass(frozen=True)
class Opened:
    """A database that has been read, and its index."""

    database: Database
    index: ValueIndex
    profile: Profile


class Grounder:
    """Grounds questions about any number of databases; their indices are built under `cache_dir` when first needed.

    `encoder` is `minilm` (the packaged all-MiniLM-L6-v2), a folder with a sentence-transformers model, `none` for the
    channels without vectors, or an encoder of your own.
    """

    def __init__(
        self,
        cache_dir: Path,
        encoder: str | Encoder = "minilm",
        config: GroundingConfig = GroundingConfig(),
        progress: bool = False,
    ):
        self.cache_dir = Path(cache_dir)
        self.config = config
        self._progress = progress
        found = find_encoder(encoder) if isinstance(encoder, str) else encoder
        self._encoder = CachedEncoder(found, self.cache_dir / "vectors") if found else None
        self._opened: dict[tuple, Opened] = {}

    def ground(self, request: Request) -> GroundedSchema:
        """S' of one question. Raises InputError for a database that cannot be read."""
        return self.ground_many([request])[0]

    def ground_many(self, requests: Sequence[Request]) -> list[GroundedSchema]:
        """S' of each request, in order; the mentions of up to 512 requests are encoded together."""
        return [
            grounded
            for start in range(0, len(requests), REQUESTS_A_BATCH)
            for grounded, _ in self._ground_batch(requests[start : start + REQUESTS_A_BATCH])
        ]

    def open(
        self, db_path: Path, description_dir: Path | None = None, tables_json: Path | None = None
    ) -> tuple[Database, ValueIndex]:
        """The database's schema and its value index, which is built now if it is not there yet."""
        opened = self.open_all(db_path, description_dir, tables_json)
        return opened.database, opened.index

    def open_all(self, db_path: Path, description_dir: Path | None = None, tables_json: Path | None = None) -> Opened:
        """The same, and what retrieval knows of the columns."""
        path = Path(db_path)
        # A file that has changed since it was opened is opened anew. A missing one is left for Database to report.
        key = (path, description_dir, tables_json, str(file_state(content_files(path)) if path.exists() else None))
        opened = self._opened.pop(key, None)
        if opened is None:
            database = Database.read(path, description_dir, tables_json)
            index = ValueIndex.open(database, self.cache_dir, self._encoder, self.config, self._progress)
            opened = Opened(database, index, Profile(database, index, self._encoder))
        self._opened[key] = opened  # last: the dictionary is in order of use
        if len(self._opened) > OPEN_DATABASES:
            del self._opened[next(iter(self._opened))]
        return opened

    def rank_many(self, requests: Sequence[Request], k: int) -> list[tuple[GroundedSchema, tuple[ValueMatch, ...]]]:
        """S' of each request, and its k best values whatever their score: for evaluation."""
        return list(self._ground_batch(requests, k))

    def ask(self, requests: Sequence[Request]) -> list[Asked]:
        """What is looked up for each request; the mentions of them all are encoded together."""
        mentions = [find_mentions(r.question, r.evidence, self.config.max_mentions) for r in requests]
        vectors = self._encode(mentions)
        return [self._ask(request, found, vectors) for request, found in zip(requests, mentions)]

    def _ground_batch(
        self, requests: Sequence[Request], k: int = 0
    ) -> Iterator[tuple[GroundedSchema, tuple[ValueMatch, ...]]]:
        for request, asked in zip(requests, self.ask(requests)):
            yield self._ground(request, asked, k)

    def _encode(self, mentions: Sequence[Sequence[Mention]]) -> dict[str, np.ndarray] | None:
        """Unit vectors by mention text; None without an encoder."""
        if self._encoder is None:
            return None
        texts = list(dict.fromkeys(mention.text for found in mentions for mention in found))
        return dict(zip(texts, self._encoder.encode(texts))) if texts else {}

    def _ask(
        self, request: Request, mentions: tuple[Mention, ...], vectors: dict[str, np.ndarray] | None
    ) -> Asked:
        asked = Asked(request.question, request.evidence, mentions, find_spans(request.question, request.evidence))
        if vectors is None or not mentions:
            return asked
        return replace(asked, vectors_MD=np.stack([vectors[mention.text] for mention in mentions]))

    def _ground(self, request: Request, asked: Asked, k: int) -> tuple[GroundedSchema, tuple[ValueMatch, ...]]:
        opened = self.open_all(request.db_path, request.description_dir, request.tables_json)
        database, index = opened.database, opened.index
        stems = frozenset(content_stems(f"{request.question} {request.evidence}"))
        ranking = retrieve(index, opened.profile, asked, max(k, self.config.top_values))
        values = ranking[: self.config.top_values]
        if self.config.min_score > 0:
            values = confident(values, self.config.min_score)
        tables = link(database, stems, values, self.config)
        return GroundedSchema(database, tables, values, self._samples(index, database, tables)), ranking[:k]

    def _samples(
        self, index: ValueIndex, database: Database, tables: Sequence[LinkedTable]
    ) -> tuple[ColumnSamples, ...]:
        """Frequent values of the text columns, keys apart, that the question gives evidence for."""
        samples = []
        for table in tables if self.config.samples else ():
            columns = database.by_name[fold_name(table.name)].by_name
            for linked in table.columns:
                is_text = columns[fold_name(linked.name)].type == "text" and not linked.is_key
                if is_text and linked.has_evidence:
                    values = index.samples(table.name, linked.name, self.config.samples)
                    samples.append(ColumnSamples(table.name, linked.name, values))
        return tuple(samples)
