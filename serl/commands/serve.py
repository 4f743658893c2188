"""`serl serve`: a trained agent behind an OpenAI-compatible chat endpoint."""

import argparse
import importlib.util
import signal
import socket
from pathlib import Path

from serl.commands.ask import add_asking, check_database, sampling_of
from serl.commands.options import parse_overrides
from serl.errors import InputError, Stopped

SQL_WORKERS = ("sql.workers", "8")  # half of which one database may hold, however slow it is


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "serve", help="answer questions over HTTP, as an OpenAI-compatible server",
        description="POST /v1/chat/completions, with and without stream; GET /v1/models lists a model serl/NAME for "
                    "each database. Databases are only ever read. Earlier messages of a conversation and their SQL go "
                    "with the question, system messages are evidence. There is no authentication: by default only "
                    "this machine can connect. The config's sql.workers is 8 here unless it is overridden.")
    add_asking(parser)
    parser.add_argument("--db", metavar="FILE_OR_DIR", type=Path, required=True,
                        help="SQLite file, or a folder with databases in it or in its folders")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free (default: %(default)s)")
    parser.add_argument("--rows", metavar="N", type=int, default=100, help="rows of an answer (default: %(default)s)")
    parser.add_argument("--timeout", metavar="S", type=float, default=60.0,
                        help="seconds a question may take, waiting included (default: %(default)g)")
    parser.add_argument("--at-once", metavar="N", type=int, default=32,
                        help="questions that are sampled at a time (default: %(default)s)")
    parser.add_argument("--waiting", metavar="N", type=int, default=64,
                        help="questions that may wait for that; more are told to try again (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until it is told to stop. InputError before the model is loaded for all that could be wrong."""
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise InputError(f"serl serve needs {package}; pip install 'serl[serve]'")
    if not 0 < args.timeout <= 86_400:
        raise InputError(f"--timeout {args.timeout:g}: should be more than 0 seconds, and at most a day")
    if args.at_once < 1 or args.waiting < 0:
        raise InputError("--at-once should be at least 1, --waiting at least 0")
    from serl.ask.settings import config_for
    from serl.serve.databases import databases_in

    databases = databases_in(args.db)
    for path in databases.values():
        check_database(path)
    config = config_for(args.checkpoint, args.config, [SQL_WORKERS, *parse_overrides(args.overrides)])
    sampling = sampling_of(args, config.eval.temperature, args.rows)
    with listening(args.host, args.port) as sock:
        from serl.serve.run import serve

        signal.signal(signal.SIGTERM, _stop)
        serve(config, sampling, databases, sock, args.at_once, args.waiting, args.timeout)
    return 0


def listening(host: str, port: int) -> socket.socket:
    """A socket at this address; InputError where it cannot be had."""
    if not 0 <= port < 2**16:  # the resolver would take the rest of a division
        raise InputError(f"--port {port}: should be between 0 and 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); choose another") from error


def _stop(number: int, _) -> None:
    raise Stopped(number)
