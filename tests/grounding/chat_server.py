"""A chat server for tests: an OpenAI-compatible endpoint on this machine that plays scripted answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Script:
    """What the server answers, reply by reply, and what it was asked."""

    replies: list = field(default_factory=list)
    """A text; a status code; bytes, sent as they are; seconds to wait, as a float; None: the connection is closed. Or
    one function from the messages to a text, for all requests."""
    asked: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    url: str = ""


@contextmanager
def chat_server(*replies) -> Iterator[Script]:
    script, lock = Script(list(replies)), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                script.asked.append(body | {"path": self.path})
                script.headers.append(dict(self.headers))
                is_function = isinstance(script.replies[0], Callable)
                reply = script.replies[0] if is_function else script.replies.pop(0)
            self.answer(reply(body["messages"]) if is_function else reply)

        def answer(self, reply) -> None:
            if reply is None:
                return
            if isinstance(reply, float):
                time.sleep(reply)
                reply = "too late"
            status = reply if isinstance(reply, int) else 200
            if isinstance(reply, str):
                reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": reply}}]}).encode()
            content = reply if isinstance(reply, bytes) else b'{"error": "out of\\n order"}'
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except BrokenPipeError:  # the client did not wait
                pass

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
