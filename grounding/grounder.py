"""Grounding from end to end: question and database in, grounded schema out; many questions in one encoded batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from grounding.embed import CachedEncoder, Encoder, find_encoder
from grounding.errors import InputError
from grounding.grounded import (
    ColumnSamples,
    GroundedSchema,
    GroundingConfig,
    LinkedTable,
    Links,
    Request,
    ValueMatch,
)
from grounding.index import ValueIndex
from grounding.io import file_state
from grounding.link import Clues, link, link_gold
from grounding.mentions import Mention, find_mentions, find_spans
from grounding.reasoning.prompt import Ask
from grounding.reasoning.reasoner import Reasoned, Reasoner
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


@dataclass(frozen=True)
class Found:
    """What was found for a question before anything is linked."""

    request: Request
    ranking: tuple[ValueMatch, ...]
    """Values whatever their score, best first."""
    clues: Clues
    """Without what a model named, which is in `reasoned`."""
    reasoned: Reasoned | None = None
    """None: no model was asked."""


class Grounder:
    """Grounds questions about any number of databases; their indices are built under `cache_dir` when first needed.

    `encoder` is `minilm` (the packaged all-MiniLM-L6-v2), a folder with a sentence-transformers model, `none` for the
    channels without vectors, or an encoder of your own. A `reasoner` adds the links that a model names.
    """

    def __init__(
        self,
        cache_dir: Path,
        encoder: str | Encoder = "minilm",
        config: GroundingConfig = GroundingConfig(),
        progress: bool = False,
        reasoner: Reasoner | None = None,
    ):
        self.cache_dir = Path(cache_dir)
        self.config = config
        if reasoner is not None and config.mode == "oracle":
            raise InputError("grounding mode oracle keeps what gold SQL uses and has no use for a model's links")
        self.progress = progress  # whether building an index shows how far it is
        self._reasoner = reasoner
        found = find_encoder(encoder) if isinstance(encoder, str) else encoder
        self._encoder = CachedEncoder(found, self.cache_dir / "vectors") if found else None
        self._opened: dict[tuple, Opened] = {}

    @property
    def reasons(self) -> bool:
        """Whether a model is asked."""
        return self._reasoner is not None

    def ground(self, request: Request) -> GroundedSchema:
        """S' of one question. Raises InputError for a database that cannot be read."""
        return self.ground_many([request])[0]

    def ground_many(self, requests: Sequence[Request]) -> list[GroundedSchema]:
        """S' of each request, in order; the mentions of up to 512 requests are encoded together."""
        return [
            self.link(found, self.config)
            for start in range(0, len(requests), REQUESTS_A_BATCH)
            for found in self.look_up(requests[start : start + REQUESTS_A_BATCH])
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
            index = ValueIndex.open(database, self.cache_dir, self._encoder, self.config, self.progress)
            opened = Opened(database, index, Profile(database, index, self._encoder))
        self._opened[key] = opened  # last: the dictionary is in order of use
        if len(self._opened) > OPEN_DATABASES:
            del self._opened[next(iter(self._opened))]
        return opened

    def look_up(self, requests: Sequence[Request], k: int = 0) -> Iterator[Found]:
        """What each request's links are made from, `k` values at least, the mentions of all encoded together.

        A model, where there is one, has been asked about all of them before the first is given.
        """
        found = (self._look_up(request, asked, k) for request, asked in zip(requests, self.ask(requests)))
        if self._reasoner is None:
            return found
        found = list(found)
        reasoned = self._reasoner.name_links([self._ask_model(each) for each in found])
        return (replace(each, reasoned=own) for each, own in zip(found, reasoned))

    def link(self, found: Found, config: GroundingConfig) -> GroundedSchema:
        """S' from what was found, in the mode of `config`, which may differ from the grounder's own in its links."""
        opened = self._open(found.request)
        database, values, reasoned = opened.database, found.clues.values, found.reasoned
        if config.mode == "oracle":
            reasoned = None
            tables = link_gold(database, _gold_links(found.request, database))
        else:
            _refuse_gold(found.request, config)
            named = reasoned.links if reasoned and reasoned.links else Links()
            tables = link(database, replace(found.clues, reasoning=named), config)
        return GroundedSchema(
            database, tables, tuple(values), self._samples(opened.index, database, tables),
            reasoned=None if reasoned is None else reasoned.links is not None,
            warnings=() if reasoned is None else reasoned.warnings,
        )

    def ask(self, requests: Sequence[Request]) -> list[Asked]:
        """What is looked up for each request; the mentions of them all are encoded together."""
        mentions = [find_mentions(r.question, r.evidence, self.config.max_mentions) for r in requests]
        vectors = self._encode(mentions)
        return [self._asked(request, found, vectors) for request, found in zip(requests, mentions)]

    def _encode(self, mentions: Sequence[Sequence[Mention]]) -> dict[str, np.ndarray] | None:
        """Unit vectors by mention text; None without an encoder."""
        if self._encoder is None:
            return None
        texts = list(dict.fromkeys(mention.text for found in mentions for mention in found))
        return dict(zip(texts, self._encoder.encode(texts))) if texts else {}

    def _asked(
        self, request: Request, mentions: tuple[Mention, ...], vectors: dict[str, np.ndarray] | None
    ) -> Asked:
        asked = Asked(request.question, request.evidence, mentions, find_spans(request.question, request.evidence))
        if vectors is None or not mentions:
            return asked
        return replace(asked, vectors_MD=np.stack([vectors[mention.text] for mention in mentions]))

    def _open(self, request: Request) -> Opened:
        return self.open_all(request.db_path, request.description_dir, request.tables_json)

    def _look_up(self, request: Request, asked: Asked, k: int) -> Found:
        opened = self._open(request)
        ranking = retrieve(opened.index, opened.profile, asked, max(k, self.config.top_values))
        values = ranking[: self.config.top_values]
        if self.config.min_score > 0:
            values = confident(values, self.config.min_score)
        stems = frozenset(content_stems(f"{request.question} {request.evidence}"))
        return Found(request, ranking[:k], Clues(stems, values, _similarity(opened.profile, asked)))

    def _ask_model(self, found: Found) -> Ask:
        """The whole schema, the likeliest tables first, for the model to choose from; values that link are marked."""
        database = self._open(found.request).database
        tables = link(database, found.clues, replace(self.config, mode="full"))
        values = confident(found.clues.values, max(self.config.min_score, self.config.link_score))
        full = GroundedSchema(database, tables, values)
        return Ask(found.request.question, found.request.evidence, full)

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


def _similarity(profile: Profile, asked: Asked) -> dict[tuple[str, str], float]:
    """Cosine of each column's name to the nearest mention, by (table, column); empty without vectors of both."""
    if profile.names_CD is None or asked.vectors_MD is None:
        return {}
    nearest_C = (profile.names_CD @ asked.vectors_MD.T).max(axis=1)
    return dict(zip(profile.columns, nearest_C.tolist()))


def _gold_links(request: Request, database: Database) -> Links:
    gold = request.gold_links
    if gold is None or gold.tables.isdisjoint(fold_name(table.name) for table in database.tables):
        raise InputError(f"grounding mode oracle keeps what gold SQL uses, and question {request.question!r} came "
                         f"without gold_links that name a table of {database.path}")
    return gold


def _refuse_gold(request: Request, config: GroundingConfig) -> None:
    if request.gold_links is not None:
        raise InputError(f"question {request.question!r} came with gold_links, which grounding mode {config.mode} must "
                         "not see; use mode oracle if that is meant")
