"""Outcomes of statements, computed once and kept on disk.

A cache is one JSON-lines file. An entry is keyed by the database's content, the SQL, the dialect and the
limits, so that a changed database or other limits never meet an old result. Not kept is what another try may
change: outcomes `timeout` and `infrastructure`, statements that draw random numbers or ask what time it is,
and databases of a server, whose content has no hash.

The file only grows, by whole entries at its end. A run that was killed while writing leaves at most one
broken last line, which the next one drops.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from grounding.io import file_sha256
from serl.errors import InputError
from serl.io import atomic_write_bytes, read_jsonl
from serl.sql.executors import FILE_DIALECTS
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from serl.sql.statement import tokens

_MAY_CHANGE = (Status.TIMEOUT, Status.INFRASTRUCTURE)
_CHANGING_WORDS = frozenset("CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP".split())
_THIS_MOMENT = ("'NOW'", '"NOW"')  # SQLite takes a name that is no column for a string
_CHANGING_FUNCTIONS = frozenset(
    "RANDOM RANDOMBLOB NOW TODAY UUID UUIDV4 UUIDV7 GEN_RANDOM_UUID GET_CURRENT_TIME GET_CURRENT_TIMESTAMP".split()
)
_CLOCKS = frozenset("DATE TIME DATETIME JULIANDAY UNIXEPOCH".split())  # without an argument: of this moment

_Job = tuple[Path | str, str]  # database, SQL


class OutcomeCache:
    """Outcomes in the file `path`, made with `sandbox` where they are missing."""

    def __init__(self, path: Path | str, sandbox: Sandbox):
        self._path = Path(path)
        self._sandbox = sandbox
        self._database_hashes: dict[str, str] = {}
        self._outcomes = _load(self._path)

    def outcomes(self, jobs: Iterable[_Job]) -> list[Outcome]:
        """What came of every statement, in the order of the jobs; only those not in the file are run."""
        jobs = [(str(database), sql) for database, sql in jobs]
        if self._sandbox.dialect not in FILE_DIALECTS:
            return self._sandbox.run_many(jobs)
        keys = [self._key(*job) for job in jobs]
        missing = {key: job for key, job in zip(keys, jobs) if key not in self._outcomes}
        fresh = dict(zip(missing, self._sandbox.run_many(missing.values())))
        self._keep({key: outcome for key, outcome in fresh.items()
                    if outcome.status not in _MAY_CHANGE and is_repeatable(missing[key][1])})
        known = self._outcomes | fresh
        return [known[key] for key in keys]

    def _keep(self, outcomes: dict[str, Outcome]) -> None:
        if outcomes:
            lines = [json.dumps({"key": key, "outcome": outcome.to_json()}, ensure_ascii=False) + "\n"
                     for key, outcome in outcomes.items()]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab", buffering=0) as file:
                file.write("".join(lines).encode("utf-8", "surrogatepass"))
            self._outcomes.update(outcomes)

    def _key(self, database: str, sql: str) -> str:
        if database not in self._database_hashes:
            self._database_hashes[database] = _sha256(Path(database))
        parts = (self._database_hashes[database], sql, self._sandbox.dialect, repr(self._sandbox.limits))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


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


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise InputError(f"{path}: cannot read the database ({error.strerror})") from error
