"""An OpenAI-compatible server (POST BASE_URL/chat/completions), asked with the standard library alone."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from grounding.errors import InputError
from grounding.reasoning.chat import ChatError, Message

LONGEST_REPLY = 4_000_000  # bytes; an answer to our prompt has a few hundred
HOPELESS = {401: "it refuses the key", 403: "it refuses the key", 404: "it has no such path or model",
            405: "it is no chat endpoint"}
"""Replies that every further question would get too."""


class Endpoint:
    """A `Chat` over HTTP, deterministic as far as the server is (temperature 0).

    `key_variable` names the environment variable with the API key; None sends no key. A server that cannot be reached,
    or that refuses all questions alike, is an InputError; one that fails or is slow at one question a ChatError.
    """

    def __init__(self, base_url: str, model: str, key_variable: str | None = None, timeout_s: float = 60.0,
                 max_tokens: int = 512):
        if not _is_url(base_url):
            raise InputError(f"chat endpoint {base_url!r}: this is no URL such as http://localhost:8000/v1")
        self._url = base_url.rstrip("/") + "/chat/completions"
        self.model, self._timeout_s, self._max_tokens = model, timeout_s, max_tokens
        self._headers = {"Content-Type": "application/json"}
        if key_variable is not None:
            if not os.environ.get(key_variable):
                raise InputError(f"chat endpoint {base_url}: the environment variable {key_variable}, which should "
                                 "hold its key, is not set")
            self._headers["Authorization"] = f"Bearer {os.environ[key_variable]}"

    def __call__(self, messages: Sequence[Message]) -> str:
        body = {"model": self.model, "messages": list(messages), "temperature": 0, "max_tokens": self._max_tokens}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as reply:
                return self._content(reply.read(LONGEST_REPLY))
        except urllib.error.HTTPError as error:
            said = " ".join(error.read(500).decode("utf-8", "replace").split())
            if error.code in HOPELESS:
                raise InputError(f"{self._url}: {HOPELESS[error.code]} (HTTP {error.code}: {said})") from error
            raise ChatError(f"HTTP {error.code}: {said}") from error
        except TimeoutError as error:
            raise ChatError(f"no answer within {self._timeout_s:g} s") from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, (TimeoutError, ConnectionResetError, BrokenPipeError)):
                raise ChatError(f"the connection broke ({error.reason})") from error
            raise InputError(f"{self._url}: cannot be reached ({error.reason}); is the server running?") from error
        except (http.client.HTTPException, OSError) as error:
            raise ChatError(f"the connection broke ({error!r})") from error

    def _content(self, reply: bytes) -> str:
        try:
            content = json.loads(reply)["choices"][0]["message"]["content"]
        except (ValueError, RecursionError, KeyError, IndexError, TypeError) as error:
            raise ChatError(f"the reply is no chat completion ({error!r})") from error
        if not isinstance(content, str):
            raise ChatError("the reply holds no text")
        return content


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False
