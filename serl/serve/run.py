"""A server from end to end: databases indexed, model loaded, requests answered until somebody says stop."""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from tqdm import tqdm

from serl.ask.asker import Sampling
from serl.config import Config
from serl.serve.app import make_app
from serl.serve.engine import Engine
from serl.workbench import open_workbench

CLOSE_S = 5  # that requests under way have when the server is told to stop


def serve(config: Config, sampling: Sampling, databases: Mapping[str, Path], sock: socket.socket, at_once: int,
          waiting: int, timeout_s: float) -> None:
    """Answer requests that come to `sock`. InputError for a database whose index cannot be made."""
    with open_workbench(config) as bench:
        for path in tqdm(databases.values(), desc="index", unit="database"):
            bench.preparer.grounder.open_all(path)  # so that nobody's question waits for it
        with Engine(bench, sampling, at_once, waiting, timeout_s) as engine:
            host, port = sock.getsockname()[:2]
            print(f"serving {len(databases)} database{'s' * (len(databases) != 1)} at http://{host}:{port}/v1",
                  file=sys.stderr, flush=True)
            settings = uvicorn.Config(make_app(engine, databases), log_level="warning", access_log=False,
                                      timeout_graceful_shutdown=CLOSE_S, lifespan="off")
            uvicorn.Server(settings).run(sockets=[sock])
