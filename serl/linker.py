"""Who names reasoning links: a server, or the policy of this process as grounding's `Chat`; and gold, by opt-in.

The policy answers greedily, one question at a time, and its answers are not kept, since they are those of its present
weights. For the same reason training does not take its links from the policy that it changes: all rollouts of a
question share S', in every epoch and after every resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grounding.evaluate.gold import UnresolvedSql, read_gold
from grounding.grounded import Links
from grounding.reasoning import ChatError, Message, Reasoner, ask_server
from grounding.schema import Database
from serl.agent.env import Environment
from serl.config.options import GroundingOptions
from serl.data.example import Example
from serl.errors import InputError
from serl.generate.interface import Generator, Request, StopReason, generate

NEW_TOKENS = 256  # of an answer: some twenty names
WORDS_TOKENS = 512  # of a prompt besides the schema: the instructions take some 250
LEAST_SCHEMA = 128


class PolicyChat:
    """Greedy answers of a policy."""

    def __init__(self, generator: Generator, env: Environment) -> None:
        self.generator, self.env = generator, env

    def __call__(self, messages: Sequence[Message]) -> str:
        ids = self.env.framing.prompt_ids(list(messages))
        if len(ids) + NEW_TOKENS > self.env.max_length:
            raise ChatError(f"the prompt of {len(ids)} tokens leaves no room for an answer in model.max_length "
                            f"{self.env.max_length}")
        (generation,) = generate(self.generator, [Request(ids, None)], NEW_TOKENS, 1.0)
        sampled = generation.ids[:-1] if generation.stop is StopReason.EOS else generation.ids
        return b"".join(self.env.token_bytes.of(index) for index in sampled).decode("utf-8", "replace")


def policy_reasoner(generator: Generator, env: Environment, options: GroundingOptions) -> Reasoner:
    """Asks the policy, with as much of the schema as fits its length."""
    room = env.max_length - NEW_TOKENS - WORDS_TOKENS
    if room < LEAST_SCHEMA:
        raise InputError(f"config: model.max_length {env.max_length} is too short to ask the policy for links; it "
                         f"takes {NEW_TOKENS + WORDS_TOKENS + LEAST_SCHEMA}, or name a server by grounding.chat_url")
    return Reasoner(PolicyChat(generator, env), budget=min(options.chat_budget, room), count_tokens=env.count_tokens,
                    workers=1, progress=True)


def server_reasoner(options: GroundingOptions) -> Reasoner:
    """Asks the server of the config; its answers are kept beside the value indices."""
    return ask_server(options.chat_url, options.chat_model, options.chat_key, options.chat_timeout_s,
                      Path(options.cache), options.chat_budget, options.chat_workers)


def gold_links(examples: Sequence[Example]) -> list[Links | None]:
    """What each example's gold SQL uses, for mode oracle; None where that cannot be told."""
    databases = {path: Database.read(path) for path in {example.db_path for example in examples}}
    links = []
    for example in examples:
        try:
            links.append(read_gold(example.gold_sql, databases[example.db_path]).links)
        except UnresolvedSql:
            links.append(None)
    return links
