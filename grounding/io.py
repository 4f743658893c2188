"""Files: hashes, locks, and writes that are either complete or absent; standard output."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from grounding.errors import InputError

LOCK = "lock"
SETTLED_S = 2.0  # the coarsest time of change among common file systems (FAT's)


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    """(line number from 1, document) of each line that is not blank; InputError names the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: not JSON ({error})") from error


def databases_below(root: Path) -> list[Path]:
    """Every *.sqlite file under a folder, in order; InputError where there is none."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; --root takes the folder that holds the databases")
    paths = sorted(root.rglob("*.sqlite"))
    if not paths:
        raise InputError(f"{root}: no *.sqlite file in it or below it")
    return paths


def print_document(document: dict | str) -> None:
    """Prints human text, or a document as JSON; in escapes what standard output's encoding does not hold."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        escaped = text.encode(sys.stdout.encoding, "backslashreplace").decode(sys.stdout.encoding)
        text = escaped if isinstance(document, str) else json.dumps(document)
    print(text)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text beside `path` and renames it into place, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def file_state(paths: Iterable[Path]) -> list[list[int]]:
    """Size, times of last change and inode of files, in nanoseconds: what tells a changed file without reading it."""
    stats = [path.stat() for path in paths]
    return [[stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino] for stat in stats]


def content_sha256(paths: Sequence[Path], folder: Path) -> str:
    """Hex SHA-256 over files together; read again only where `file_state` differs from the one noted under `folder`.

    A note is made only of files that were left alone for SETTLED_S before: a later change then has another time.
    """
    note = folder / f"{hashlib.sha256(str(paths[0].resolve()).encode()).hexdigest()[:16]}.json"
    state = file_state(paths)
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        if noted["state"] == state:
            return noted["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is no note, or none that can be used
    digest = hashlib.sha256("".join(file_sha256(path) for path in paths).encode()).hexdigest()
    is_settled = max(changed for _, *times, _ in state for changed in times) < time.time_ns() - SETTLED_S * 1e9
    if is_settled and file_state(paths) == state:
        with contextlib.suppress(OSError):  # a cache that cannot be written is still of use to readers
            atomic_write_text(note, json.dumps({"path": str(paths[0]), "state": state, "sha256": digest}))
    return digest


def finish(partial: Path, path: Path) -> None:
    """Gives a file that was written to its end its name, once it is on the disk."""
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Makes a folder and holds it against other processes and threads that ask for it in this way.

    The holder may rename or remove the folder; who waited for it then gets a new one. A holder that dies lets go.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # also where it is there, and moved away before mkdir looks whether it is a folder
            if folder.exists() and not folder.is_dir():
                raise
            continue
        try:
            lock = open(folder / LOCK, "a")  # noqa: SIM115 (it is closed below)
        except FileNotFoundError:  # it was moved away between the two lines
            continue
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                is_current = os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / LOCK))
            except FileNotFoundError:
                is_current = False
            if is_current:
                yield
                return
