"""Documents as compressed data blocks of a page, which its script unpacks when it needs them.

A block is the gzipped JSON of a list, in base64 inside `<script type="application/gzip">`: no browser runs it, no text
in it can close the element, and half the size of plain JSON is left. Browsers of before 2023 have no
DecompressionStream; the page says so in them.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable
from typing import Any

from serl.view.html import Html, tag

BLOCK_CHARS = 200_000
"""A block is closed when its JSON is longer: short enough to be unpacked within a frame or two."""


class Archive:
    """A list of documents in blocks; `starts[b]` is the number of the first document of block b."""

    def __init__(self, name: str, documents: Iterable[Any] = ()) -> None:
        self.name, self.starts, self.blocks = name, [], []
        self._open: list[str] = []
        self._count = self._chars = 0
        for document in documents:
            self.add(document)

    def add(self, document: Any) -> None:
        """Append a document. Its numbers may be NaN or infinite: they become null."""
        text = json.dumps(finite(document), separators=(",", ":"), allow_nan=False)
        if not self._open:
            self.starts.append(self._count)
        self._open.append(text)
        self._count, self._chars = self._count + 1, self._chars + len(text)
        if self._chars > BLOCK_CHARS:
            self.close()

    def elements(self) -> list[Html]:
        """The blocks as elements with the ids `NAME-0`, `NAME-1`, …"""
        self.close()
        return [tag("script", Html(block), type="application/gzip", id=f"{self.name}-{number}")
                for number, block in enumerate(self.blocks)]

    def close(self) -> None:
        """End the open block, if there is one."""
        if not self._open:
            return
        packed = gzip.compress(f"[{','.join(self._open)}]".encode("ascii"), compresslevel=9, mtime=0)
        self.blocks.append(base64.b64encode(packed).decode("ascii"))
        self._open, self._chars = [], 0


def finite(value: Any) -> Any:
    """Plain data without numbers that JSON cannot hold.

    >>> finite({"a": [1.5, float("nan")], "b": "x"})
    {'a': [1.5, None], 'b': 'x'}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, (list, tuple)) else value
