"""Messages between the sandbox and its workers: a length, then that many bytes of pickled plain data.

A message may be followed by parts, each pickled by itself: a result's rows travel as the chunks in which
they were read, so that the worker pickles each row once (and counts its bytes so) and the caller takes
them apart in short steps, between which its other threads get a turn.

Only built-in types travel (numbers, text, bytes, None, tuples, lists, dicts). The reader refuses
anything else, so that a worker taken over by a hostile database file could not run code in the caller.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import Any

_HEADER = struct.Struct("!Q")
HEADER_BYTES = _HEADER.size


def pack(value: Any) -> bytes:
    """`value` pickled. What occurs in it twice is written twice, which makes flat data faster."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
    pickler.fast = True
    pickler.dump(value)
    return buffer.getvalue()


def encode(message: Any, parts: Sequence[bytes] = ()) -> bytes:
    """One frame: header, message and the parts, which `pack` has made."""
    body = pack(message)
    return b"".join((_HEADER.pack(len(body) + sum(map(len, parts))), body, *parts))


def body_length(header: bytes) -> int:
    """The number of bytes that follow a header."""
    return _HEADER.unpack(header)[0]


def decode(body: bytes) -> Iterator[Any]:
    """The message in a frame's body, then its parts; pickle.UnpicklingError for more than plain data."""
    stream = io.BytesIO(body)
    while stream.tell() < len(body):
        yield _PlainDataUnpickler(stream).load()


class _PlainDataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a frame may hold plain data only, not {module}.{name}")
