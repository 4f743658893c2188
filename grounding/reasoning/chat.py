"""A chat model as grounding sees one, and a store of its answers."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from grounding.errors import InputError

Message = dict[str, str]
"""{"role": "system", "user" or "assistant", "content": text}"""


class ChatError(Exception):
    """No answer to this question; the next one may have one. What ends the work instead is an InputError."""


class Chat(Protocol):
    def __call__(self, messages: Sequence[Message]) -> str:
        """The model's answer. Raises ChatError where there is none."""


class CachedChat:
    """A chat whose answers are kept by model and messages: nobody is asked the same twice, in this run or the next.

    The store is `folder/MODEL.sqlite`; each answer is written in a transaction of its own, so that a killed run loses
    only those it was waiting for. Threads may share it, and processes may share the folder.
    """

    def __init__(self, chat: Chat, model: str, folder: Path):
        self._chat, self._model = chat, model
        self._path = folder / (re.sub(r"[^\w.\-]", "_", model) + ".sqlite")
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(self._path, timeout=60.0, check_same_thread=False)
            with self._store:
                self._store.execute("CREATE TABLE IF NOT EXISTS answer (key BLOB PRIMARY KEY, text TEXT NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def __call__(self, messages: Sequence[Message]) -> str:
        key = hashlib.sha256(json.dumps([self._model, list(messages)], sort_keys=True).encode()).digest()
        try:
            with self._lock:
                known = self._store.execute("SELECT text FROM answer WHERE key = ?", (key,)).fetchone()
            if known:
                return known[0]
            text = self._chat(messages)
            with self._lock, self._store:
                # Text may hold surrogates that UTF-8, and so SQLite, cannot.
                clean = text.encode("utf-8", "replace").decode("utf-8")
                self._store.execute("INSERT OR REPLACE INTO answer VALUES (?, ?)", (key, clean))
            return clean
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> InputError:
        return InputError(f"{self._path}: the store of a model's answers cannot be used ({error}); delete it, or see "
                          "its folder")
