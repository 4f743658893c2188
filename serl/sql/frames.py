"""Messages between the sandbox and its workers: a length, then that many bytes of pickled plain data.

Only built-in types travel (numbers, text, bytes, None, tuples, lists, dicts). The reader refuses
anything else, so that a worker taken over by a hostile database file could not run code in the caller.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

_HEADER = struct.Struct("!Q")
HEADER_BYTES = _HEADER.size


def encode(message: Any) -> bytes:
    """One frame: header and body."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """The number of bytes that follow a header."""
    return _HEADER.unpack(header)[0]


def decode(body: bytes) -> Any:
    """The message in a frame's body; pickle.UnpicklingError if it holds more than plain data."""
    return _PlainDataUnpickler(io.BytesIO(body)).load()


class _PlainDataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a frame may hold plain data only, not {module}.{name}")
