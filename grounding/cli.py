"""The `grounding` command: build value indices ahead of time, ask what of a database a question needs, evaluate that.

Human text goes to stderr, results to stdout. Exit 0: done; 1: a database could not be indexed; 2: wrong usage or input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from grounding.chat_options import add_chat_options, make_reasoner
from grounding.errors import InputError
from grounding.evaluate import command
from grounding.grounded import GroundedSchema, GroundingConfig, Request
from grounding.io import databases_below, print_document, read_jsonl

DEFAULT_CACHE = Path(".cache/grounding")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except InputError as error:
        _say(error)
        return 2
    except BrokenPipeError:  # who read the answers has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor can they be flushed at the end
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grounding", description="Ground questions in the schema and values of SQLite databases."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = _shared_options()
    _add_build(commands.add_parser("build", parents=[shared], help="index the values of every database under a folder"))
    _add_query(
        commands.add_parser("query", parents=[shared], help="the tables, columns and values that a question needs")
    )
    evaluate = commands.add_parser("eval", parents=[shared], help="recall of values, tables and columns against gold")
    command.add_options(evaluate)
    evaluate.set_defaults(run=lambda options: command.evaluate(options, _index_config(options)))
    return parser


def _shared_options() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where indices and vectors are kept (default: %(default)s)"
    )
    shared.add_argument(
        "--encoder", default="minilm", help="minilm, a sentence-transformers folder, or none (default: %(default)s)"
    )
    defaults = GroundingConfig()
    shared.add_argument(
        "--max-values",
        type=_positive,
        default=defaults.max_values_per_column,
        help="distinct values of a column that are indexed (default: %(default)s)",
    )
    shared.add_argument(
        "--max-embedded",
        type=_positive,
        default=defaults.max_embedded_per_column,
        help="distinct texts of a column that are embedded (default: %(default)s)",
    )
    shared.add_argument(
        "--numbers",
        action=argparse.BooleanOptionalAction,
        default=defaults.numbers,
        help="index the numbers of columns whose numbers name things, as codes and years do",
    )
    shared.add_argument("--json", action="store_true", help="print JSON on stdout")
    return shared


def _add_build(build: argparse.ArgumentParser) -> None:
    build.add_argument("--root", type=Path, required=True, help="folder that is searched for *.sqlite files")
    build.add_argument(
        "--workers", type=_positive, default=1, help="processes, each with its own database (default: %(default)s)"
    )
    build.add_argument("--verify", action="store_true", help="read every byte of the indices that are there already")
    build.set_defaults(run=_build)


def _add_query(query: argparse.ArgumentParser) -> None:
    query.add_argument("question", nargs="?", help="the question")
    query.add_argument("--db", type=Path, required=True, help="the SQLite file")
    query.add_argument("--evidence", default="", help="what the question's author adds to it")
    query.add_argument(
        "--questions", type=Path, help='file with one {"question", "evidence"} a line, instead of a question'
    )
    query.add_argument(
        "--descriptions",
        type=Path,
        help="folder of BIRD description CSVs (default: database_description beside the database)",
    )
    query.add_argument(
        "--tables", type=Path, help="BIRD's or Spider's tables.json (default: the data set's, if it lies in one)"
    )
    query.add_argument(
        "--mode",
        choices=("hybrid", "full"),
        default="hybrid",
        help="keep what is linked, or everything (default: %(default)s)",
    )
    query.add_argument("--top-values", type=_positive, default=10, help="how many values (default: %(default)s)")
    query.add_argument(
        "--min-score",
        type=_share,
        help="leave out values that score less, 0 to 1 (default: rank only, and the schema's text marks those of "
        f"{GroundingConfig.min_score} or more)",
    )
    query.add_argument(
        "--style", choices=("compact", "ddl"), default="compact", help="of the schema's text (default: %(default)s)"
    )
    query.add_argument(
        "--samples", type=_count, default=0, help="frequent values that the text shows for a linked text column "
        "without a match (default: %(default)s)"
    )
    query.add_argument(
        "--budget", type=_positive, help="tokens that the schema's text may have, at 3 characters each: the least "
        "needed columns go first, and from --json too (default: no limit)"
    )
    add_chat_options(query)
    query.set_defaults(run=_query)


def _build(options: argparse.Namespace) -> int:
    from grounding.corpus import build_all

    paths = databases_below(options.root)
    results = build_all(paths, options.cache, options.encoder, _index_config(options), options.workers, options.verify)
    built = [result.counts for result in results if result.counts]
    failed = [{"path": str(result.path), "error": result.error} for result in results if result.error]
    for result in results:
        for warning in result.warnings:
            _say(f"{result.path}: {warning}")
    for failure in failed:
        _say(failure["error"])
    strings = sum(entry["strings"] for entry in built)
    print(f"{len(built)} databases, {strings} distinct values; {len(failed)} failed", file=sys.stderr)
    if options.json:
        print_document({"built": built, "failed": failed})
    return 1 if failed else 0


def _index_config(options: argparse.Namespace) -> GroundingConfig:
    """The options that decide what an index holds; all commands must agree in them."""
    return GroundingConfig(
        max_values_per_column=options.max_values, max_embedded_per_column=options.max_embedded, numbers=options.numbers
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is below 0")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return number


def _say(error: object) -> None:
    """One line, whatever names and messages it quotes."""
    from grounding.safety import neutralize

    print(f"grounding: {neutralize(str(error))}", file=sys.stderr)


def _query(options: argparse.Namespace) -> int:
    if (options.question is None) == (options.questions is None):
        raise InputError("give one question, or --questions FILE")
    if options.descriptions and not options.descriptions.is_dir():
        raise InputError(f"{options.descriptions}: no such folder; --descriptions takes the one with the CSV files")
    requests = [Request(options.question, options.db, options.evidence, options.descriptions, options.tables)]
    if options.questions:
        requests = list(_read_requests(options))

    reasoner = make_reasoner(options)

    from grounding.grounder import Grounder
    from grounding.render import altered_names

    config = replace(
        _index_config(options), mode=options.mode, top_values=options.top_values, min_score=options.min_score or 0.0,
        samples=options.samples,
    )
    answers = Grounder(options.cache, options.encoder, config, reasoner=reasoner).ground_many(requests)
    if answers:
        for warning in (*answers[0].database.warnings, *altered_names(answers[0].database)):
            _say(f"{options.db}: {warning}")
    for whole in answers:
        text, grounded = _fit(whole, options)
        for warning in grounded.warnings:
            _say(warning)
        print_document(grounded.to_json() if options.json else _for_people(text, grounded))
    return 0


def _fit(whole: GroundedSchema, options: argparse.Namespace) -> tuple[str, GroundedSchema]:
    """The schema's text, and S' with the tables and columns that it shows and with every value.

    Values that are listed by rank alone are mostly unlike the question: the text marks those that are like it.
    """
    from grounding.render import fit_schema
    from grounding.retrieve import confident

    least = GroundingConfig.min_score if options.min_score is None else options.min_score
    marked = replace(whole, values=confident(whole.values, least) if least else whole.values)
    text, shown = fit_schema(marked, options.style, options.budget, samples=options.samples)
    return text, replace(shown, values=whole.values)


def _read_requests(options: argparse.Namespace) -> Iterator[Request]:
    for number, record in read_jsonl(options.questions):
        try:
            question, evidence = record["question"], record.get("evidence")
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f'{options.questions}, line {number}: not a JSON object with "question" ({error})'
            ) from error
        evidence = "" if evidence is None else evidence
        if not isinstance(question, str) or not isinstance(evidence, str):
            raise InputError(f"{options.questions}, line {number}: question and evidence must be strings")
        yield Request(question, options.db, evidence, options.descriptions, options.tables)


def _for_people(text: str, grounded: GroundedSchema) -> str:
    from grounding.render.literals import literal
    from grounding.safety import neutralize

    values = [
        f"  {m.score:.2f} {m.channel:8s}{neutralize(m.table)}.{neutralize(m.column)} = {literal(m.value, m.stored)}"
        for m in grounded.values
    ]
    return "\n".join([text, *values])
