"""The `serl` command. Each subcommand lives in `serl.commands` and loads what it needs when it runs."""

import argparse
import os
import sys
from collections.abc import Sequence

from serl import __version__
from serl.commands import (
    ask,
    credit,
    data,
    evaluate,
    export,
    plan,
    score,
    select,
    serve,
    sft,
    sql,
    sweep,
    teach,
    train,
    view,
)
from serl.errors import InputError, Stopped, WorkFailed
from serl.io import FULL
from serl.launch import leave_word
from serl.parallel import ranks_of

COMMANDS = (data, sql, score, sft, train, evaluate, select, ask, serve, view, credit, teach, sweep, export, plan)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(prog="serl", description="Text-to-SQL agents trained with execution hindsight.")
    root.add_argument("--version", action="version", version=f"serl {__version__}")
    subparsers = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 the work failed or found failures, 2 wrong usage or input, 128 + n stopped by signal n."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # we fork workers; the warning is only noise
    argv = sys.argv[1:] if argv is None else list(argv)
    args, rest = parser().parse_known_args(argv)
    if rest and not getattr(args, "takes_overrides", False):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    args.overrides, args.argv = rest, argv
    try:
        if ranks_of(os.environ).size > 1 and not hasattr(args, "processes"):
            raise InputError(f"serl {args.command} runs in one process; start it without a launcher")
        return args.run(args)
    except InputError as error:
        return _fail(f"serl: {error}", 2)
    except WorkFailed as error:
        return _fail(f"serl: {error}", 1)
    except Stopped as stop:
        return _fail(f"\nserl: {stop}", stop.code)
    except KeyboardInterrupt:
        print("serl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in FULL:
            raise
        return _fail(f"serl: {error.filename}: cannot be written ({error.strerror}); make room", 1)


def _fail(word: str, code: int) -> int:
    """Say why the work has ended; of several ranks the launcher says it."""
    if not leave_word(word):
        print(word, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
