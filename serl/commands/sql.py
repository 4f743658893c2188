"""`serl sql`: one statement through the sandbox."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from serl.commands.options import print_json
from serl.errors import InputError

if TYPE_CHECKING:
    from serl.sql.outcome import Outcome

_SHOWN_ROWS = 50


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `sql` to the `serl` command."""
    parser = subparsers.add_parser("sql", help="run one read-only SQL statement in the sandbox")
    parser.add_argument("sql", metavar="SQL", help='the statement, as in "SELECT count(*) FROM t"')
    parser.add_argument("--db", metavar="FILE", required=True,
                        help='database file; for postgres a connection string, "host=... dbname=... user=..."')
    parser.add_argument("--dialect", choices=("sqlite", "duckdb", "postgres"), default="sqlite",
                        help="engine that runs it (default: sqlite)")
    parser.add_argument("--timeout", metavar="S", type=float, default=5.0, help="seconds (default: 5)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 where the statement ran, 1 for every other outcome; InputError without a database file."""
    from serl.sql.executors import FILE_DIALECTS
    from serl.sql.sandbox import Limits, Sandbox

    if args.dialect in FILE_DIALECTS and not Path(args.db).is_file():
        raise InputError(f"--db {args.db}: no such file")
    if not args.timeout > 0:
        raise InputError(f"--timeout {args.timeout:g}: should be more than 0 seconds")
    with Sandbox(workers=1, limits=Limits(timeout_s=args.timeout), dialect=args.dialect) as sandbox:
        outcome = sandbox.run(args.db, args.sql)
    if args.json:
        print_json(outcome.to_json())
    else:
        print(_describe(outcome), file=sys.stderr)
    return 0 if outcome.ran else 1


def _describe(outcome: Outcome) -> str:
    """The outcome for a human: a table of the first rows, then one line of status."""
    from serl.sql.table import printable, table

    status = f"{outcome.status.value}, {outcome.row_count} rows, {outcome.ms:.1f} ms"
    told = f"{status}: {printable(outcome.error)}" if outcome.error else status
    return "\n".join([*table(outcome, _SHOWN_ROWS), told])
