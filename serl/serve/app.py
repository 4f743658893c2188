"""The HTTP side: GET /health, GET /v1/models, POST /v1/chat/completions (see `serl.serve.protocol`).

The way to an answer (thinking, queries, what the database said; of several samples a line each, and their votes) goes
into `reasoning_content`, the answer into `content`, and all of it as data into `serl`, beside `choices`: what
`serl ask --json` prints.

    400 what cannot be asked    404 no such database    413 body too long    429 full: try again    504 time over
"""

import asyncio
import io
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TextIO

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from serl.agent.token_bytes import TokenBytes
from serl.ask.answer import Answer
from serl.ask.question import QuestionError
from serl.ask.terminal import Terminal
from serl.errors import InputError, WorkFailed
from serl.serve.engine import Engine, Full, Ticket
from serl.serve.markdown import answer_text
from serl.serve.protocol import NAME, ChatRequest, Refused

MAX_BODY = 256 * 1024  # bytes of a request
BODY_S = 20.0  # in which it has to be here
GRACE_S = 2.0  # after a question's deadline, in which what was sampled until then becomes an answer
KEEP_ALIVE_S = 5.0  # between signs of life in a stream
RETRY_S = 2  # after which a client may try again


def make_app(engine: Engine, databases: Mapping[str, Path]) -> FastAPI:
    """The application around an engine."""
    app, created = FastAPI(title="serl", openapi_url=None), int(time.time())

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return JSONResponse(error.to_json(), error.status, error.headers)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "questions": len(engine), "room": engine.room}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": f"{NAME}/{name}", "object": "model", "created": created,
                                            "owned_by": NAME} for name in databases]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        asked = ChatRequest.read(await body_of(request))
        call = Call(engine, asked, databases)
        try:
            if asked.stream:
                await call.wait(request, call.ticket.ready)
                return StreamingResponse(call.events(), media_type="text/event-stream",
                                         headers={"Cache-Control": "no-cache"})
            return Response(dump(call.completion(await call.wait(request, call.ticket.answer))),
                            media_type="application/json")
        except BaseException:  # the client has gone, the server ends, or the question cannot be answered
            call.ticket.cancel()
            raise

    return app


async def body_of(request: Request) -> bytes:
    """The request's body; Refused where it is too long or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise Refused(413, f"the request has more than {MAX_BODY} bytes", "request_too_large")
    except TimeoutError as error:
        raise Refused(408, f"the request was not here after {BODY_S:g} s", "request_timeout") from error
    return bytes(body)


class Relay(io.TextIOBase):
    """What a terminal would show, handed over to the event loop."""

    def __init__(self) -> None:
        self.loop, self.texts = asyncio.get_running_loop(), asyncio.Queue()

    def write(self, text: str) -> int:
        self.put(text)
        return len(text)

    def put(self, text: str | None) -> None:
        """From any thread; None: there is no more."""
        self.loop.call_soon_threadsafe(self.texts.put_nowait, text)


class Call:
    """One request on its way. Refused where it cannot be taken in."""

    def __init__(self, engine: Engine, asked: ChatRequest, databases: Mapping[str, Path]) -> None:
        self.engine, self.asked = engine, asked
        self.head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": asked.model}
        self.way: Relay | io.StringIO = Relay() if asked.stream else io.StringIO()
        drawn = None if asked.temperature is None else asked.temperature > 0
        try:
            self.ticket: Ticket = engine.submit(asked.asked(databases), self.terminal(self.way), drawn,
                                                asked.temperature or None, asked.seed)
        except Full as error:
            raise Refused(429, f"{engine.room} questions are being answered or wait; try again", "full",
                          {"Retry-After": str(RETRY_S)}) from error

    @property
    def token_bytes(self) -> TokenBytes:
        return self.engine.bench.env.token_bytes

    async def wait(self, request: Request, future: Future) -> Any:
        """What comes of `future`; Refused where it fails or takes too long, and if the client has gone."""
        wanted = asyncio.ensure_future(asyncio.wrap_future(future))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait((wanted, gone), timeout=self.seconds_left, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return self.result(wanted)
            if gone.done():
                raise Refused(499, "the client has gone", "client_closed_request")  # which nobody reads
            raise self.late()
        finally:
            wanted.cancel()
            gone.cancel()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.ticket.deadline + GRACE_S - time.monotonic())

    def late(self) -> Refused:
        return Refused(504, f"no answer within {self.engine.timeout_s:g} s", "timeout")

    def result(self, done: asyncio.Future | Future) -> Any:
        """What a future holds that is done, or Refused in its words."""
        try:
            found = done.result()
        except QuestionError as error:
            raise Refused(400, str(error), "context_length_exceeded") from error
        except TimeoutError as error:
            raise self.late() from error
        except (InputError, WorkFailed) as error:
            raise Refused(500, "the database cannot be read" if isinstance(error, InputError) else str(error),
                          "internal_error") from error
        if isinstance(found, Answer) and found.is_late:
            raise self.late()
        return found

    def completion(self, answer: Answer) -> dict[str, Any]:
        """The answer in one document."""
        message = {"role": "assistant", "content": self.text(answer),
                   "reasoning_content": self.way.getvalue() + self.choice(answer)}
        return {**self.head, "object": "chat.completion", "usage": usage(answer),
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
                "serl": answer.to_json(self.token_bytes)}

    def choice(self, answer: Answer) -> str:
        """Why this sample was chosen, if there were several."""
        text = io.StringIO()
        if self.engine.sampling.n > 1:
            self.terminal(text).choice(answer)
        return text.getvalue()

    def terminal(self, stream: TextIO) -> Terminal:
        return Terminal(stream, False, self.token_bytes, self.engine.sampling)

    def text(self, answer: Answer) -> str:
        return answer_text(answer, self.engine.sampling.rows)

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        self.ticket.answer.add_done_callback(lambda _: self.way.put(None))
        try:
            yield self.chunk({"role": "assistant", "content": ""})
            async for text in self.texts():
                yield b": still here\n\n" if text is None else self.chunk({"reasoning_content": text})
            answer = self.result(self.ticket.answer)
            if why := self.choice(answer):
                yield self.chunk({"reasoning_content": why})
            yield self.chunk({"content": self.text(answer)})
            yield self.chunk({}, "stop", serl=answer.to_json(self.token_bytes))
            if self.asked.stream_options is not None and self.asked.stream_options.include_usage:
                yield event({**self.head, "object": "chat.completion.chunk", "choices": [], "usage": usage(answer)})
        except Refused as error:
            yield event(error.to_json())
        finally:
            self.ticket.cancel()
        yield b"data: [DONE]\n\n"

    async def texts(self) -> AsyncIterator[str | None]:
        """What is said on the way to the answer; None where nothing was for a while. Refused if that takes too long."""
        while True:
            try:
                text = await asyncio.wait_for(self.way.texts.get(), min(KEEP_ALIVE_S, self.seconds_left))
            except TimeoutError:
                if not self.seconds_left:
                    raise self.late() from None
                yield None
                continue
            if text is None:
                return
            yield text

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**self.head, "object": "chat.completion.chunk", "choices": [choice], **more})


async def _gone(request: Request) -> None:
    """Comes back when the client has gone; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def usage(answer: Answer) -> dict[str, int]:
    prompt, sampled = len(answer.ready.prompt_ids), answer.sampled_tokens
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


def dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def event(document: Mapping[str, Any]) -> bytes:
    """One server-sent event; JSON has no line breaks of its own."""
    return b"data: " + dump(document) + b"\n\n"
