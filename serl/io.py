"""Reading and writing of the project's files.

Writers replace a file whole or leave it as it was: neither a killed run nor a full disk leaves half a file behind.
What they raise names the file.
Readers turn every way in which a file can be wrong into an InputError that names the file and the line.
"""

from __future__ import annotations

import errno
import io
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serl.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a user's share of it, the largest file allowed


def atomic_write_bytes(path: Path | str, data: bytes) -> None:
    """Write `data` to `path`, making its folder. Readers see the old content or the new, never a part.

    What is no file (/dev/null, /dev/stdout, a named pipe) is written into; putting a file in its place would break
    it for everyone. A link stays one: the file that it points to is replaced.
    """
    if _is_special(path):
        Path(path).write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with names_file(path), open(part, "wb", buffering=0) as file:
            write_all(file, data)
            os.fsync(file.fileno())  # before the name: after a power failure it would be an empty file's
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_all(file: io.RawIOBase, data: bytes) -> None:
    """Write to an unbuffered file, which takes less than it is given where the disk is getting full."""
    view = memoryview(data)
    while view:
        view = view[file.write(view):]


@contextmanager
def names_file(path: Path) -> Iterator[None]:
    """An OSError in it is about this file; one of a write does not say of which."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def check_writable(path: Path | str) -> None:
    """InputError unless a file can be written to `path`: before the work that it is to hold. Makes its folder."""
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_special(path):
            return
        probe = Path(os.path.realpath(path))
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe = probe.with_name(f".{probe.name}.{uuid.uuid4().hex}.part")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def atomic_write_text(path: Path | str, text: str) -> None:
    """Write `text` as UTF-8, all or nothing."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_jsonl(path: Path | str, rows: Iterable[Any]) -> None:
    """Write one JSON document a line, all or nothing."""
    atomic_write_text(path, "".join(_line(row) for row in rows))


def read_json(path: Path | str, make_object: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The JSON document in `path`; an InputError says which file and line is wrong.

    `make_object` makes an object of its pairs, for those who must see a key that stands twice.
    """
    text = read_text(path)
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except (ValueError, RecursionError) as error:
        place = f"{path}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else path
        raise InputError(f"{place}: {_not_json(error)}") from error


def read_jsonl(path: Path | str) -> list[Any]:
    """The documents of a JSON-lines file in order; blank lines are skipped."""
    rows = []
    # Not splitlines(): it also cuts at characters that JSON allows inside a string, such as U+2028.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: {_not_json(error)}") from error
    return rows


def read_text(path: Path | str) -> str:
    """The text of a UTF-8 file, line ends as they are; an InputError says which line is wrong."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not valid UTF-8") from error


def _not_json(error: ValueError | RecursionError) -> str:
    """What is wrong: the grammar, an integer of more digits than Python reads, or lists within lists without end."""
    return f"not valid JSON ({error.msg if isinstance(error, json.JSONDecodeError) else error})"


def _is_special(path: Path | str) -> bool:
    """Whether something is there that is neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _line(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
