"""Outcomes of statements, computed once and kept on disk.

A cache is one JSON-lines file. An entry is keyed by the database's content (with what waits in its write-ahead
log), the SQL, the engine with its version and the limits of size, so that a changed database or other limits never
meet an old result. The time limit is no part of the key, so that whoever has another one shares the entries: one
counts where its statement took no longer than is allowed. Not kept is what another try may change: outcomes
`timeout` and `infrastructure`, statements that draw random numbers or ask what time it is, results of a database
that changed meanwhile, and databases of a server, whose content has no hash.

The file only grows, by whole entries at its end. A run that was killed while writing leaves at most one
broken last line, which the next one drops.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from grounding.io import file_sha256
from serl.errors import InputError
from serl.io import atomic_write_bytes, names_file, read_jsonl, write_all
from serl.sql.executors import FILE_DIALECTS, engine_version
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from serl.sql.statement import tokens

_MAY_CHANGE = (Status.TIMEOUT, Status.INFRASTRUCTURE)
_CHANGING_WORDS = frozenset("CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP".split())
_THIS_MOMENT = ("'NOW'", '"NOW"')  # SQLite takes a name that is no column for a string
_CHANGING_FUNCTIONS = frozenset(
    """RANDOM RANDOMBLOB NOW TODAY AGE UUID UUIDV4 UUIDV7 GEN_RANDOM_UUID GET_CURRENT_TIME GET_CURRENT_TIMESTAMP
    CURRENT_LOCALTIME CURRENT_LOCALTIMESTAMP TRANSACTION_TIMESTAMP TXID_CURRENT""".split()
)
_LOGS = ("-wal", ".wal")  # what is committed but not yet in the database's file: SQLite's, DuckDB's
_CLOCKS = frozenset("DATE TIME DATETIME JULIANDAY UNIXEPOCH".split())  # without an argument: of this moment

_Job = tuple[Path | str, str]  # database, SQL


class OutcomeCache:
    """Outcomes in the file `path`, made with `sandbox` where they are missing."""

    def __init__(self, path: Path | str, sandbox: Sandbox):
        self._path = Path(path)
        self._sandbox = sandbox
        self._hashes: dict[tuple, str] = {}
        # Without the time limits; a Limits has no other way to say so than the same for all.
        sizes = dataclasses.replace(sandbox.limits, timeout_s=1.0, grace_s=1.0)
        self._setting = f"{sandbox.dialect} {engine_version(sandbox.dialect)} {sizes}"
        self._outcomes = _load(self._path)

    def outcomes(self, jobs: Iterable[_Job]) -> list[Outcome]:
        """What came of every statement, in the order of the jobs; only those not in the file are run."""
        jobs = [(str(database), sql) for database, sql in jobs]
        if self._sandbox.dialect not in FILE_DIALECTS:
            return self._sandbox.run_many(jobs)
        keys = [self._key(*job) for job in jobs]
        missing = {key: job for key, job in zip(keys, jobs) if not self._has(key)}
        fresh = dict(zip(missing, self._sandbox.run_many(missing.values())))
        self._keep({key: outcome for key, outcome in fresh.items()
                    if outcome.status not in _MAY_CHANGE and is_repeatable(missing[key][1])
                    and key == self._key(*missing[key])})  # fmt: skip
        known = self._outcomes | fresh
        return [known[key] for key in keys]

    def _has(self, key: str) -> bool:
        return key in self._outcomes and self._outcomes[key].ms <= 1000 * self._sandbox.limits.timeout_s

    def _keep(self, outcomes: dict[str, Outcome]) -> None:
        if outcomes:
            lines = [json.dumps({"key": key, "outcome": outcome.to_json()}, ensure_ascii=False) + "\n"
                     for key, outcome in outcomes.items()]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab", buffering=0) as file, names_file(self._path):
                write_all(file, "".join(lines).encode("utf-8", "surrogatepass"))
            self._outcomes.update(outcomes)

    def _key(self, database: str, sql: str) -> str:
        parts = (self._content(database), sql, self._setting)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def _content(self, database: str) -> str:
        """The hashes of a database's file and log, computed anew where the system says that one has changed."""
        try:
            logs = [log for end in _LOGS if os.path.exists(log := database + end) and os.path.getsize(log)]
            return "".join([self._hash(file) for file in (database, *logs)])
        except OSError as error:
            raise InputError(f"{database}: cannot read the database ({error.strerror})") from error

    def _hash(self, file: str) -> str:
        state = os.stat(file)
        known_as = (file, state.st_ino, state.st_size, state.st_mtime_ns)
        if known_as not in self._hashes:
            self._hashes[known_as] = file_sha256(Path(file))
        return self._hashes[known_as]


def is_repeatable(sql: str) -> bool:
    """Whether a statement gives the same result whenever it runs on the same data. False where in doubt.

    >>> is_repeatable("SELECT date(born) FROM t"), is_repeatable("SELECT date('now')"), is_repeatable("SELECT time()")
    (True, False, False)
    """
    words = [token.group().upper() for token in tokens(sql)]
    bare = [word.strip("\"`[]") for word in words]
    for index, word in enumerate(bare):
        arguments = words[index + 1 : index + 4]
        if word in _CHANGING_WORDS or words[index] in _THIS_MOMENT:
            return False
        if word in _CHANGING_FUNCTIONS and arguments[:1] == ["("]:
            return False
        if word in _CLOCKS and arguments[:2] == ["(", ")"]:
            return False
        if word == "TABLESAMPLE" or (word == "SAMPLE" and bare[index - 1] == "USING"):
            return False
        if word == "STRFTIME" and arguments[2:] == [")"]:  # a format and no time
            return False
    return True


def _load(path: Path) -> dict[str, Outcome]:
    if not path.exists():
        return {}
    _drop_broken_end(path)
    try:
        return {row["key"]: Outcome.from_json(row["outcome"]) for row in read_jsonl(path)}
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path}: not a cache of SQL results ({error}); delete it to make it again"
        raise InputError(message) from error


def _drop_broken_end(path: Path) -> None:
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        atomic_write_bytes(path, data[: data.rfind(b"\n") + 1])
