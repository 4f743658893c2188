"""`serl data minibird` and `serl data check`: make the embedded benchmark or its dialogues, check a data set."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from serl.commands.options import print_json
from serl.errors import InputError

_SHOWN_FAILURES = 10


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `data` with its own subcommands to the `serl` command."""
    data = subparsers.add_parser("data", help="make or check benchmark data")
    commands = data.add_subparsers(dest="data_command", metavar="COMMAND", required=True)
    _add_minibird(commands)
    _add_check(commands)


def _add_minibird(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("minibird", help="write the embedded benchmark, in BIRD's own layout")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="same seed, same bytes (default: 0)")
    parser.add_argument("--dialogue", action="store_true",
                        help="write dialogues on the same databases instead of questions, in SParC's layout")
    for name, default, what in (
        ("train", "4000, with --dialogue 1200", "training questions, or dialogues"),
        ("dev", "400, with --dialogue 120", "dev questions, or dialogues, on databases that training sees"),
        ("unseen", "200, with --dialogue 60", "dev questions, or dialogues, on databases that training never sees"),
        ("invented", "0", "databases made up at random that training sees as well"),
        ("invented-questions", "40", "training questions on each invented database"),
    ):
        parser.add_argument(f"--{name}", metavar="N", type=int, help=f"{what} (default: {default})")
    parser.add_argument("--apart-from", metavar="DIR", type=Path, help="leave out the questions of the minibird in DIR")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on stdout")
    parser.set_defaults(run=run_minibird)


def _add_check(commands: argparse._SubParsersAction) -> None:
    from serl.data import FORMATS

    parser = commands.add_parser("check", help="load a data set, run its gold queries, report")
    parser.add_argument("--format", choices=FORMATS, required=True, help="layout of the data")
    parser.add_argument("--root", metavar="DIR", type=Path, required=True, help="the data's root folder")
    parser.add_argument("--split", default="dev", help="which questions (default: %(default)s)")
    parser.add_argument("--level", metavar="NAME", action="append", default=[],
                        help="synsql: only questions of this level of difficulty; may be given several times")
    parser.add_argument("--per-level", metavar="N", type=int, help="synsql: a sample of N questions of each level")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="parallel queries (default: 2)")
    parser.add_argument("--timeout", metavar="S", type=float, default=30, help="seconds a query (default: 30)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON on stdout")
    parser.set_defaults(run=run_check)


def run_minibird(args: argparse.Namespace) -> int:
    """Write the benchmark; InputError for counts that cannot be made and for an unreadable DIR of `--apart-from`."""
    from serl.data.minibird import generate
    from serl.data.minibird.dialogue import generate_dialogues

    names = ("train", "dev", "unseen", "invented", "invented_questions", "apart_from")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.dialogue:
        for name in given.keys() - {"train", "dev", "unseen"}:
            raise InputError(f"minibird: --{name.replace('_', '-')} is for questions, leave it out with --dialogue")
        summary = generate_dialogues(args.out, seed=args.seed, **given)
    else:
        summary = generate(args.out, seed=args.seed, **given)
    if args.json:
        print_json(summary)
    else:
        print(f"wrote {args.out}", file=sys.stderr)
    return 0


def run_check(args: argparse.Namespace) -> int:
    """0 where every gold query ran, 1 where one failed; InputError where the data cannot be read."""
    from serl.data import Sample, load
    from serl.data.check import check
    from serl.sql.sandbox import Limits, Sandbox

    if args.per_level is not None and args.per_level < 1:
        raise InputError(f"--per-level {args.per_level}: must be at least 1")
    examples = load(args.format, args.root, args.split, Sample(tuple(args.level), args.per_level))
    with Sandbox(args.workers, Limits(timeout_s=args.timeout)) as sandbox:
        report = check(examples, sandbox)
    report = {"format": args.format, "root": str(args.root), "split": args.split, **report}
    if args.json:
        print_json(report)
    else:
        print(_describe(report), file=sys.stderr)
    return 1 if report["failing"] else 0


def _describe(report: dict[str, Any]) -> str:
    """The report of `check` for a human."""
    counts = ", ".join(f"{count} {status}" for status, count in report["status"].items())
    size = f"{report['examples']} questions on {report['databases']} databases"
    lines = [f"{size}, gold run in {report['seconds']:.1f} s: {counts}"]
    failing = report["failing"]
    for failure in failing[:_SHOWN_FAILURES]:
        lines.append("  {question_id} ({db_id}): {status}: {error}".format(**failure))
    if len(failing) > _SHOWN_FAILURES:
        lines.append(f"  ... {len(failing) - _SHOWN_FAILURES} more; --json lists them all")
    return "\n".join(lines)
