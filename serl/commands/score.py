"""`serl score`: a prediction file against gold, by official metrics."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serl.commands.options import print_json
from serl.errors import InputError

if TYPE_CHECKING:
    from serl.data.predictions import Predictions

_SHOWN = 5


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `score` to the `serl` command."""
    from serl.data import FORMATS

    parser = subparsers.add_parser("score", help="score a prediction file against gold")
    parser.add_argument("--format", choices=FORMATS, required=True, help="layout of the data")
    parser.add_argument("--root", metavar="DIR", type=Path, required=True, help="the data's root folder")
    parser.add_argument("--split", default="dev", help="which questions (default: %(default)s)")
    parser.add_argument("--pred", metavar="FILE", type=Path, required=True,
                        help="predictions: lines of SQL, BIRD's .json, .jsonl or .csv")
    parser.add_argument("--metrics", metavar="A,B", required=True,
                        help="such as bird_ex,spider_ex,em,strict; a wrong name lists all")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write one JSON line a question")
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="parallel queries (default: 2)")
    parser.add_argument("--timeout", metavar="S", type=float, default=30, help="seconds a query (default: 30)")
    parser.add_argument("--iterations", metavar="N", type=int, default=100,
                        help="timed runs a question, for ves and r_ves (default: 100, as the official scripts)")
    parser.add_argument("--cache", metavar="DIR", type=Path, default=Path("data/gold_cache"),
                        help="results of queries that ran before (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the totals as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 where every question was scored or left out for its gold, 1 where the sandbox failed on one.

    InputError for data or predictions that cannot be read, and for a metric that does not exist.
    """
    from serl.data import load
    from serl.data.predictions import read_predictions
    from serl.evaluate.metrics import METRICS
    from serl.evaluate.score import prediction_cache_name, score
    from serl.evaluate.totals import dialogue_table, dialogues, left_out, table, to_json, totals
    from serl.io import write_jsonl
    from serl.sql.outcome import Status
    from serl.sql.sandbox import Limits, Sandbox

    start = time.perf_counter()
    names = _metric_names(args.metrics, list(METRICS))
    if args.workers < 1 or not args.timeout > 0:
        raise InputError("--workers should be at least 1 and --timeout more than 0 seconds")
    if args.iterations < 1:
        raise InputError("--iterations should be at least 1")
    metrics = {name: METRICS[name].timed(args.iterations) for name in names}
    examples = load(args.format, args.root, args.split)
    if not examples:
        raise InputError(f"{args.root}: no questions in split {args.split}")
    predictions = read_predictions(args.pred, examples)
    gold_cache = args.cache / f"{args.format}_{args.split}.jsonl"
    _check_outputs(args, gold_cache)
    with Sandbox(args.workers, Limits(timeout_s=args.timeout)) as sandbox:
        scored = score(examples, predictions, metrics, sandbox,
                       gold_cache, args.cache / prediction_cache_name(args.pred))  # fmt: skip
    if args.out is not None:
        write_jsonl(args.out, (one.to_json() for one in scored))
    sums = totals(scored)
    matches = dialogues(scored, [name for name in names if not METRICS[name].graded])
    without_score = left_out(scored)
    if args.json:
        print_json({
            "format": args.format, "root": str(args.root), "split": args.split, "pred": str(args.pred),
            "questions": len(scored), "totals": to_json(sums),
            "dialogues": {name: match.to_json() for name, match in matches.items()}, "left_out": without_score,
            "predictions": {"missing": predictions.missing, "duplicate": predictions.duplicate,
                            "extra": predictions.extra},
            "seconds": round(time.perf_counter() - start, 3),
        })  # fmt: skip
    else:
        heading = f"{len(scored)} questions, % (95% interval)"
        tables = [table(sums, names), *([dialogue_table(matches)] if matches else [])]
        print("\n".join([heading, *tables, *_remarks(predictions, without_score)]), file=sys.stderr)
    failed = any(Status.INFRASTRUCTURE in (one.pred_status, one.gold_status) for one in scored)
    return 1 if failed else 0


def _check_outputs(args: argparse.Namespace, gold_cache: Path) -> None:
    """InputError for a place that cannot be written: before the questions are run, not after."""
    from serl.io import check_writable

    check_writable(gold_cache)
    if args.out is not None:
        check_writable(args.out)
        if args.out.exists() and args.out.samefile(args.pred):
            raise InputError(f"--out {args.out}: this is the file of predictions, which would be lost")


def _metric_names(text: str, known: list[str]) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise InputError(f"--metrics: no metric {name!r}, should be of: {', '.join(known)}")
    return names


def _remarks(predictions: Predictions, without_score: dict[str, dict[str, Any]]) -> list[str]:
    """What a reader of the totals must know."""
    groups = {
        "questions have no prediction and count as wrong": predictions.missing,
        "questions have several predictions, the first counts": predictions.duplicate,
        "predictions belong to no question": predictions.extra,
    }
    for name, reasons in without_score.items():
        groups[f"questions have no score by {name}"] = tuple(f"{key} ({why})" for key, why in reasons.items())
    return [
        f"{len(group)} {what}: {', '.join(group[:_SHOWN])}{', ...' if len(group) > _SHOWN else ''}"
        for what, group in groups.items()
        if group
    ]
