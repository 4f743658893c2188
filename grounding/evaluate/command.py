"""`grounding eval`: its options and what it does with them."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from grounding.chat_options import add_chat_options, make_reasoner
from grounding.errors import InputError
from grounding.grounded import MODES, GroundingConfig
from grounding.io import atomic_write_text, databases_below, print_document


def add_options(evaluate: argparse.ArgumentParser) -> None:
    evaluate.add_argument("--root", type=Path, required=True, help="the folder of the data set, or of the task")
    evaluate.add_argument("--format", choices=("spider", "bird"), help="the data set's layout")
    evaluate.add_argument("--split", default="dev", help="dev or train (default: %(default)s)")
    evaluate.add_argument("--questions", type=Path, help="the questions' file, where it is not in its usual place")
    evaluate.add_argument("--databases", type=Path, help="the databases' folder, likewise")
    evaluate.add_argument("--tables", type=Path, help="the data set's tables.json, likewise")
    evaluate.add_argument("--task", type=Path, help="a file of value targets, instead of a data set")
    evaluate.add_argument(
        "--keys", action="store_true",
        help="instead of links and values: hide the declared foreign keys of the data set's databases, or of all below"
        " --root, infer them, and compare",
    )  # fmt: skip
    evaluate.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="what to link by (default: all)")
    evaluate.add_argument("--budgets", nargs="+", type=_budget, default=[None], metavar="TOKENS",
                          help="budgets of the rendered schema, in words and signs; none: no limit (default: none)")
    for option in ("keep_all_columns", "keep_table_columns"):
        default = getattr(GroundingConfig, option)
        about = "keep whole what has at most this many columns; 0 shows what links alone do (default: %(default)s)"
        evaluate.add_argument(f"--{option.replace('_', '-')}", type=int, default=default, help=about)
    evaluate.add_argument("--link-similarity", type=_cosine, metavar="COSINE", default=GroundingConfig.link_similarity,
                          help="link columns whose name is this close to a mention, −1 to 1, or none (default: "
                               "%(default)s)")
    evaluate.add_argument("--limit", type=int, help="only this many questions, evenly spread over the split")
    evaluate.add_argument("--out", type=Path, help="write the JSON document here too")
    evaluate.add_argument("--save-task", type=Path, help="write the value targets found in gold to this file")
    add_chat_options(evaluate)


def evaluate(options: argparse.Namespace, config: GroundingConfig) -> int:
    """`config` holds the options that decide what an index holds."""
    if options.keys:
        return _evaluate_keys(options)
    if (options.format is None) == (options.task is None):
        raise InputError("give --format spider or bird for a data set, or --task FILE")
    if options.task and options.chat_url:
        raise InputError("--task is about values alone, which no model is asked for: leave out --chat-url")

    from grounding.evaluate import report
    from grounding.evaluate.questions import read_split
    from grounding.evaluate.value_task import read_task, write_task
    from grounding.grounder import Grounder

    config = replace(config, keep_all_columns=options.keep_all_columns, link_similarity=options.link_similarity,
                     keep_table_columns=options.keep_table_columns)
    grounder = Grounder(options.cache, options.encoder, config, reasoner=make_reasoner(options))
    if options.task:
        found = report.evaluate_task(read_task(options.task, options.root), grounder, options.tables)
    else:
        split = read_split(options.format, options.root, options.split, options.questions, options.databases)
        modes, budgets = dict.fromkeys(options.modes), dict.fromkeys(options.budgets)
        found = report.evaluate_split(split.sample(options.limit), grounder, modes=[*modes], budgets=[*budgets],
                                      tables_json=options.tables)
    if options.save_task:
        write_task(options.save_task, found.items, options.root)
    return _publish(found, options)


def _evaluate_keys(options: argparse.Namespace) -> int:
    from grounding.evaluate.keys import evaluate_keys
    from grounding.evaluate.questions import read_split

    if options.format:
        split = read_split(options.format, options.root, options.split, options.questions, options.databases)
        return _publish(evaluate_keys(sorted({question.database for question in split.questions})), options)
    return _publish(evaluate_keys(databases_below(options.root)), options)


def _publish(report, options: argparse.Namespace) -> int:
    """A report's document to --out and, with --json, standard output; its tables to standard error."""
    if options.out:
        atomic_write_text(options.out, json.dumps(report.to_json(), ensure_ascii=False) + "\n")
    print(report.for_people(), file=sys.stderr)
    if options.json:
        print_document(report.to_json())
    return 0


def _cosine(text: str) -> float | None:
    if text == "none":
        return None
    cosine = float(text)
    if not -1 <= cosine <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between −1 and 1")
    return cosine


def _budget(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of tokens above 0 nor none")
    return int(text)
