"""A sandbox in which no database holds more than a share of the workers, so that nobody waits for a slow one but those
who ask it."""

import threading
from collections import Counter, defaultdict, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Query, Sandbox


@dataclass(eq=False)
class _Entry:
    database: str
    sql: str
    outcome: Future = field(default_factory=Future)
    query: Query | None = None  # None: it waits for its turn


class FairSandbox:
    """As `Sandbox.submit`; at most `share` statements of a database are with the workers at a time."""

    def __init__(self, sandbox: Sandbox, share: int) -> None:
        self.sandbox, self.share = sandbox, share
        self._lock = threading.RLock()  # a statement that is refused at once ends within its own submit
        self._running: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[_Entry]] = defaultdict(deque)

    def submit(self, database: Path | str, sql: str) -> Query:
        """Run one statement when its database has a worker for it."""
        entry = _Entry(str(database), sql)
        with self._lock:
            self._waiting[entry.database].append(entry)
            self._start(entry.database)
        return Query(entry.outcome, partial(self._cancel, entry))

    def _start(self, database: str) -> None:
        """Hand over what the database's share has room for."""
        waiting = self._waiting[database]
        while waiting and self._running[database] < self.share:
            entry = waiting.popleft()
            self._running[database] += 1
            entry.query = self.sandbox.submit(database, entry.sql)
            entry.query.outcome.add_done_callback(partial(self._end, entry))
        if not waiting:
            self._waiting.pop(database, None)  # an outcome that was there at once has been here before

    def _end(self, entry: _Entry, done: Future) -> None:
        with self._lock:
            self._running[entry.database] -= 1
            self._start(entry.database)
        if done.cancelled():  # the sandbox is being closed
            entry.outcome.set_result(Outcome(Status.INFRASTRUCTURE, error="cancelled"))
        elif (error := done.exception()) is not None:
            entry.outcome.set_exception(error)
        else:
            entry.outcome.set_result(done.result())

    def _cancel(self, entry: _Entry) -> None:
        with self._lock:
            if entry.query is None and entry in self._waiting[entry.database]:
                self._waiting[entry.database].remove(entry)
                entry.outcome.set_result(Outcome(Status.INFRASTRUCTURE, error="cancelled"))
        if entry.query is not None:
            entry.query.cancel()
