"""Records of large files one after the other, never a whole file in memory: JSON array, JSON lines, Parquet.

Where a JSON file begins with [ it is one array, else a document a line, whatever its name says. A record that cannot be
read is a Broken one if the file can be read on behind it, and an InputError if not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from serl.errors import InputError

CHUNK = 1 << 20  # characters that are read at once
LONGEST = 1 << 24  # characters that one record of an array may have: a broken file is not read to its end for its error
ROWS = 1024  # of a Parquet file that are decoded at once


@dataclass(frozen=True)
class Broken:
    """What stands in a record's place, and why it is none."""

    reason: str


def records(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(where it is, record) for each of a .json, .jsonl or .parquet file; of Parquet only `columns` are read.

    InputError where the file cannot be read, or not be read on.
    """
    try:
        if path.suffix == ".parquet":
            yield from _parquet(path, columns)
            return
        with open(path, encoding="utf-8-sig") as file:
            yield from _Array(path, file).records() if _begins_array(file) else _lines(file)
    except OSError as error:
        raise InputError(f"{path}: cannot read this file ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error


def _begins_array(file: TextIO) -> bool:
    """Whether the first character that is no white space is [; the file is at its beginning again afterwards."""
    while (first := file.read(1)).isspace():
        pass
    file.seek(0)
    return first == "["


def _lines(file: TextIO) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            yield f"line {number}", Broken(f"not JSON ({error})")


class _Array:
    """One JSON array, of which a window of text is held: records are decoded at its beginning and leave it."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.path, self.file, self.decoder = path, file, json.JSONDecoder()
        self.text, self.at, self.line, self.ended = "", 0, 1, False

    def records(self) -> Iterator[tuple[str, Any]]:
        self.take("[", "an array")
        if self.peek() == "]":
            self.at += 1
        else:
            while True:
                self.peek()
                yield f"line {self.line}", self.value()
                if self.peek() == "]":
                    self.at += 1
                    break
                self.take(",", "a comma or ]")
        if self.peek():
            raise self.error("more text behind the array's end")

    def value(self) -> Any:
        """The value that begins here; a number at the end of the window may go on in what is not read yet."""
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if len(self.text) - self.at >= LONGEST or not self.more():
                    raise self.error(f"not a JSON record ({getattr(error, 'msg', error)})") from error
                continue
            if end < len(self.text) or isinstance(value, (dict, list, str)) or not self.more():
                self.move(end)
                return value

    def peek(self) -> str:
        """The next character that is no white space, "" at the end of the file."""
        while True:
            end = self.at
            while end < len(self.text) and self.text[end].isspace():
                end += 1
            self.move(end)
            if end < len(self.text) or not self.more():
                return self.text[end : end + 1]

    def take(self, character: str, what: str) -> None:
        if (found := self.peek()) != character:
            raise self.error(f"expected {what}, found {found!r}" if found else f"the file ends where {what} should be")
        self.at += 1

    def move(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def more(self) -> bool:
        """Let go of what is behind, and read on; False at the end of the file."""
        fresh = "" if self.ended else self.file.read(CHUNK)
        self.ended = not fresh
        self.text, self.at = self.text[self.at :] + fresh, 0
        return not self.ended

    def error(self, what: str) -> InputError:
        return InputError(f"{self.path}, line {self.line}: {what}")


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"{path}: reading Parquet needs pyarrow; pip install 'serl[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            known = [name for name in columns if name in file.schema_arrow.names]
            number = 0
            for batch in file.iter_batches(ROWS, columns=known):
                for record in batch.to_pylist():
                    yield f"row {number}", record
                    number += 1
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({' '.join(str(error).split())})") from error
