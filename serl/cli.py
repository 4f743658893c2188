"""The `serl` command. Each subcommand lives in `serl.commands` and loads what it needs when it runs."""

import argparse
import os
import sys
from collections.abc import Sequence

from serl import __version__
from serl.commands import credit, data, evaluate, export, score, sft, sql, sweep, teach, train, view
from serl.errors import InputError, WorkFailed

COMMANDS = (data, sql, score, sft, train, evaluate, view, credit, teach, sweep, export)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(prog="serl", description="Text-to-SQL agents trained with execution hindsight.")
    root.add_argument("--version", action="version", version=f"serl {__version__}")
    subparsers = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 the work failed or found failures, 2 wrong usage or input."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # we fork workers; the warning is only noise
    args, rest = parser().parse_known_args(argv)
    if rest and not getattr(args, "takes_overrides", False):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    args.overrides = rest
    try:
        return args.run(args)
    except InputError as error:
        print(f"serl: {error}", file=sys.stderr)
        return 2
    except WorkFailed as error:
        print(f"serl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("serl: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
