"""Asks a model for reasoning links, many questions at a time, and says what it could not get.

A wrong answer is asked again once, with the reason, and a failed request once more after a pause. After that the
question has no reasoning links, and its result says so: what falls back does not do it in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grounding.budget import estimate_tokens
from grounding.errors import InputError
from grounding.grounded import Links
from grounding.reasoning.chat import CachedChat, Chat, ChatError
from grounding.reasoning.endpoint import Endpoint
from grounding.reasoning.parse import Malformed, parse_links
from grounding.reasoning.prompt import Ask, ask_again, make_prompt

ATTEMPTS = 2
PAUSE_S = 1.0  # before a failed request is sent again


@dataclass(frozen=True)
class Reasoned:
    """What a model named for a question; None: nothing that could be used, and a warning says why."""

    links: Links | None
    warnings: tuple[str, ...] = ()
    is_partial: bool = False
    """Whether it was shown a part of the schema only."""


class Reasoner:
    """Reasoning links by `chat`, whose answers are kept under `folder` by the name of its `model` (None: not kept).

    `budget` bounds a prompt's schema in tokens by `count_tokens`; `workers` questions are asked at the same time.
    """

    def __init__(self, chat: Chat, model: str = "", folder: Path | None = None, budget: int = 8192,
                 count_tokens: Callable[[str], int] = estimate_tokens, workers: int = 8, progress: bool = False):
        if folder is not None and not model:
            raise InputError("answers are kept by the model's name: give Reasoner a model, or no folder")
        self._chat = chat if folder is None else CachedChat(chat, model, folder)
        self._budget, self._count_tokens = budget, count_tokens
        self._workers, self._progress = workers, progress

    def name_links(self, asks: Sequence[Ask]) -> list[Reasoned]:
        """One result a question, in order. Raises InputError where no question can be answered (see Endpoint)."""
        from tqdm import tqdm

        pool = ThreadPoolExecutor(self._workers)
        try:
            return list(tqdm(pool.map(self._name, asks), "asking the model", len(asks), unit="question",
                             leave=False, disable=not self._progress))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, what is not yet asked is not asked

    def _name(self, ask: Ask) -> Reasoned:
        prompt = make_prompt(ask, self._budget, self._count_tokens)
        warnings = [prompt.left_out] if prompt.left_out else []
        messages, reasons = prompt.messages, []
        for attempt in range(ATTEMPTS):
            try:
                answer = self._chat(messages)
                links = parse_links(answer, ask.full.database)
                return Reasoned(links, tuple(warnings), bool(prompt.left_out))
            except ChatError as error:
                reasons.append(str(error))
                if attempt + 1 < ATTEMPTS:
                    time.sleep(PAUSE_S)
            except Malformed as error:
                reasons.append(str(error))
                messages = ask_again(prompt.messages, answer, str(error))
        warnings.append(f"no reasoning links: {'; then: '.join(reasons)}")
        return Reasoned(None, tuple(warnings), bool(prompt.left_out))


def ask_server(url: str, model: str, key: str | None, timeout_s: float, cache: Path, budget: int, workers: int
               ) -> Reasoner:
    """Reasoning links by an OpenAI-compatible server (see Endpoint); answers are kept in `cache`, with the indices."""
    chat = Endpoint(url, model, key, timeout_s)
    return Reasoner(chat, model, cache / "answers", budget, workers=workers, progress=True)
