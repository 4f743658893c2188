"""A worker process of the sandbox: reads requests on stdin, runs each, writes its outcome on stdout.

Started as `python -m serl.sql.worker DIALECT`. It imports little, so that it is up in tens of milliseconds.
The engine's part is in executors/. Here is what every statement passes, whatever the engine: a check of
the text, the rule of one statement, limits of the operating system, and an alarm that ends this process if the
engine does not come back after its deadline, even if the caller is gone.
"""

from __future__ import annotations

import gc
import resource
import signal
import sys
import time

from serl.sql import executors, frames
from serl.sql.executors import Executor, Result
from serl.sql.limits import Limits
from serl.sql.outcome import Status

READY = "ready"


def main(dialect: str) -> None:
    """Serve until stdin closes, which it does when the caller ends, however it ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    limits = Limits(**_read(requests))
    executor = executors.load(dialect, limits)
    _limit_process(limits.memory_mb + executor.own_mb)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever the caller had set
    # A scheduler may tell all processes of a job to leave: the caller decides when, and closes stdin.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    _write(answers, READY)
    while (request := _read(requests)) is not None:
        start = time.perf_counter()
        result = execute(executor, *request, limits)
        ms = (time.perf_counter() - start) * 1000
        fields = (result.status.value, result.columns, result.row_count, result.error, ms)
        _write(answers, (executor.worn_out(), *fields), result.chunks)


def _limit_process(memory_mb: int) -> None:
    """Take from this process, once and for good, what no statement needs: much memory, any byte in a file."""
    memory = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def execute(executor: Executor, database: str, sql: str, limits: Limits) -> Result:
    """Run one statement under the alarm. Every failure is a result."""
    deadline = time.perf_counter() + limits.timeout_s
    signal.setitimer(signal.ITIMER_REAL, limits.timeout_s + limits.grace_s)
    try:
        statement = _single_statement(executor, sql, limits)
        return statement if isinstance(statement, Result) else executor.run(database, statement, deadline)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _single_statement(executor: Executor, sql: str, limits: Limits) -> str | Result:
    """The one statement in `sql`, or the result of a text that is not one."""
    try:
        size = len(sql.encode("utf-8"))
    except UnicodeEncodeError as error:
        return Result(Status.ERROR, error=f"not valid Unicode text at character {error.start}")
    if "\0" in sql:
        return Result(Status.ERROR, error=f"null character at character {sql.index(chr(0))}")
    if size > limits.max_sql_bytes:
        message = f"the SQL text has {size} bytes, more than {limits.max_sql_bytes}"
        return Result(Status.TOO_LARGE, error=message)
    statements = executor.split(sql)
    if not statements:
        return Result(Status.NO_STATEMENT, error="no SQL statement")
    if len(statements) > 1:
        message = f"{len(statements)} statements, but only one is allowed"
        return Result(Status.DENIED, error=message)
    return statements[0]


def _read(stream):
    """The next message, or None at the end of the stream."""
    header = stream.read(frames.HEADER_BYTES)
    if len(header) < frames.HEADER_BYTES:
        return None
    (message,) = frames.decode(stream.read(frames.body_length(header)))
    return message


def _write(stream, message, parts=()) -> None:
    try:
        stream.write(frames.encode(message, parts))
        stream.flush()
    except BrokenPipeError:
        sys.exit(0)  # the caller is gone, nobody waits for an answer


if __name__ == "__main__":
    main(sys.argv[1])
