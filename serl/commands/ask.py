"""`serl ask`: a question of one's own, answered by a trained agent."""

import argparse
import sys
from pathlib import Path

from serl.commands.options import print_json, written_overrides
from serl.errors import InputError


def add_asking(parser: argparse.ArgumentParser) -> None:
    """What `ask` and `serve` have in common."""
    parser.add_argument("--checkpoint", metavar="DIR", required=True,
                        help="as model.path: a checkpoint, embedded, package:NAME or a model folder")
    parser.add_argument("--config", metavar="FILE", type=Path,
                        help="recipe whose prompts, grounding and limits are used (default: config.yaml of the "
                             "checkpoint's run); keys are overridden as --section.key=VALUE")
    parser.add_argument("-n", metavar="N", type=int, default=1,
                        help="samples a question; 1 is the greedy answer (default: %(default)s)")
    parser.add_argument("--select", metavar="NAME", help="how one of several samples is chosen (default: vote)")
    parser.set_defaults(takes_overrides=True)


def sampling_of(args: argparse.Namespace, temperature: float, rows: int):
    """The Sampling of a command line; InputError for numbers and names that make no sense."""
    from serl.ask.answer import selector
    from serl.ask.asker import Sampling

    for name, value in (("-n", args.n), ("--rows", rows)):
        if value < 1:
            raise InputError(f"{name} {value}: should be at least 1")
    if args.select is not None and args.n == 1:
        raise InputError(f"--select {args.select}: there is nothing to choose from; add -n 8")
    sampling = Sampling(args.n, temperature, args.select or ("vote" if args.n > 1 else "first"), rows)
    selector(sampling.select)
    return sampling


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "ask", help="ask a database a question",
        description="Ground the question, let the agent work on the database, read-only, and show its turns, its SQL "
                    "and the rows. Without a question: a conversation, in which the last three questions and their "
                    "SQL go with the next one as evidence. The first question about a database builds an index of its "
                    "values, in the folder grounding.cache.")
    parser.add_argument("question", metavar="QUESTION", nargs="?", help="(default: a conversation)")
    add_asking(parser)
    parser.add_argument("--db", metavar="FILE", type=Path, required=True, help="SQLite file")
    parser.add_argument("--evidence", metavar="TEXT", default="", help="what the agent should know beside the schema")
    parser.add_argument("--rows", metavar="N", type=int, help="rows of a result that are shown (default: 20, with "
                                                              "--json 1000)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if the question, or every one, was answered by SQL that ran, else 1."""
    if args.json and args.question is None:
        raise InputError("--json needs a question")
    check_database(args.db)
    from serl.ask.settings import config_for

    config = config_for(args.checkpoint, args.config, written_overrides(args.overrides))
    sampling = sampling_of(args, config.eval.temperature, args.rows or (1000 if args.json else 20))

    from serl.ask.asker import Asker, Listener
    from serl.ask.conversation import ask, converse, typed
    from serl.ask.question import Asked
    from serl.ask.terminal import Terminal, wants_color
    from serl.workbench import open_workbench

    asked = Asked(args.question or "", args.db, args.evidence)
    with open_workbench(config) as bench:
        asker = Asker(bench, sampling)
        if args.json:
            answer = asker.answer(asked, Listener())
            print_json(answer.to_json(bench.env.token_bytes))
            return int(not answer.answered)
        terminal = Terminal(sys.stderr, wants_color(sys.stderr), bench.env.token_bytes, sampling)
        if args.question is not None:
            return int(not ask(asker, asked, terminal).answered)
        return int(not converse(asker, asked, typed(sys.stdin, terminal), terminal))


def check_database(path: Path) -> None:
    """InputError for what is no SQLite database, before a model is loaded."""
    from grounding import Database

    Database.read(path, infer_keys=False)
