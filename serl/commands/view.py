"""`serl view RUN`: write a run's report, one HTML file to open in any browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from serl.commands.options import print_json


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `view` to the `serl` command."""
    parser = subparsers.add_parser("view", help="a run as one self-contained HTML file")
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="run folder, as written by `serl train`")
    parser.add_argument("--out", type=Path, help="where to write it (default: RUN/report.html)")
    parser.add_argument("--json", action="store_true", help='print {"report": PATH} on stdout')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the report and say where it is. Raises InputError when RUN is no run folder."""
    from serl.view.report import write_report

    report = write_report(args.run_dir, args.out)
    if args.json:
        print_json({"report": str(report)})
    else:
        print(f"wrote {report}", file=sys.stderr)
    return 0
