"""The part of OpenAI's chat protocol that is spoken here.

    model       serl/NAME names the database; /v1/models lists them
    messages    the last one, of the user, is the question; the user's ones before it are earlier questions of the
                conversation, and the ```sql blocks of the assistant's messages their SQL; system messages are evidence
    stream      whether the answer comes in events
    temperature 0: greedy, as it is without one where the server takes one sample; seed: of what is drawn

Other fields have no effect, but for those that ask for something that is not done here: they are refused.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from serl.ask.question import Asked, Exchange

NAME = "serl"
_SQL = re.compile(r"^(`{3,})sql[ \t]*\n(.*?)\n\1[ \t]*$", re.MULTILINE | re.DOTALL)


class Refused(Exception):
    """What is answered instead, with an HTTP status, in the words of OpenAI's errors."""

    def __init__(self, status: int, message: str, code: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers)

    def to_json(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 429 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": None, "code": self.code}}


class Part(BaseModel):
    """A piece of a message; only text is read."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    model: str
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    seed: int = Field(default=0, ge=0, lt=2**63)
    n: Literal[1] | None = None
    tools: list[Any] | None = Field(default=None, max_length=0)
    logprobs: Literal[False] | None = None

    @classmethod
    def read(cls, body: bytes) -> "ChatRequest":
        """Refused, with the first thing that is wrong."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise Refused(400, f"{place or 'body'}: {first['msg']}", "invalid_request") from error

    def asked(self, databases: Mapping[str, Path]) -> Asked:
        """The question, its database and what came before it."""
        prefix, _, name = self.model.partition("/")
        if prefix != NAME or name not in databases:
            known = ", ".join(f"{NAME}/{each}" for each in list(databases)[:10])
            raise Refused(404, f"model {self.model!r}: no such database; there is {known}", "model_not_found")
        *before, last = [message for message in self.messages if message.role in ("user", "assistant")] or [None]
        if last is None or last.role != "user":
            raise Refused(400, "messages: the last one should be the user's question", "invalid_request")
        evidence = " ".join(message.text for message in self.messages if message.role in ("system", "developer"))
        return Asked(last.text, databases[name], evidence, tuple(_exchanges(before)))


def _exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Earlier questions, each with the SQL of the answer behind it."""
    found: list[Exchange] = []
    for message in messages:
        if message.role == "user":
            found.append(Exchange(message.text, None))
        elif found and (block := _SQL.search(message.text)):
            found[-1] = Exchange(found[-1].question, block[2])
    return found
