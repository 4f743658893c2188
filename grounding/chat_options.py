"""The options of the `grounding` command that name a model for reasoning links."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from grounding.errors import InputError

if TYPE_CHECKING:
    from grounding.reasoning.reasoner import Reasoner


def add_chat_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reasoning links", "ask a model which tables and columns a question needs")
    group.add_argument("--chat-url", metavar="URL", help="an OpenAI-compatible server, as http://localhost:8000/v1")
    group.add_argument("--chat-model", metavar="NAME", help="its model")
    group.add_argument("--chat-key", metavar="VARIABLE", help="the environment variable that holds its key")
    group.add_argument("--chat-timeout", type=float, metavar="S", default=60.0,
                       help="seconds that an answer may take (default: %(default)s)")
    group.add_argument("--chat-workers", type=int, metavar="N", default=8,
                       help="questions asked at the same time (default: %(default)s)")
    group.add_argument("--chat-budget", type=int, metavar="TOKENS", default=8192,
                       help="tokens of a prompt's schema, by a rough count; tables that do not fit are left out, and "
                            "that is said (default: %(default)s)")


def make_reasoner(options: argparse.Namespace) -> Reasoner | None:
    """The reasoner that the options ask for; None where they name no model."""
    if (options.chat_url is None) != (options.chat_model is None):
        raise InputError("give --chat-url and --chat-model together")
    if options.chat_url is None:
        if options.chat_key is not None:
            raise InputError("--chat-key is of no use without --chat-url and --chat-model")
        return None
    for name in ("chat_timeout", "chat_workers", "chat_budget"):
        if not getattr(options, name) > 0:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(options, name)}; it must be above 0")

    from grounding.reasoning import ask_server

    return ask_server(options.chat_url, options.chat_model, options.chat_key, options.chat_timeout, options.cache,
                      options.chat_budget, options.chat_workers)
