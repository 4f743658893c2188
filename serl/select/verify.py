"""P("Yes") of candidates: the policy is shown a question, S', the work on it and its result, and asked if it is right.

    v = P("Yes" | prompt) / (P("Yes" | prompt) + P("No" | prompt))

over all tokens of either word, as the policy's next ones. A candidate without a result is not asked about. Where the
whole trajectory does not fit the model's length it is shown by its final SQL alone; where that does not, v is None.
See `serl.select.verifier` for where this comes from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grounding.safety import neutralize
from serl.agent.dialects import CLOSE_THINKING
from serl.agent.env import Environment
from serl.agent.observation import render_outcome
from serl.select.candidate import Candidate

SYSTEM = "You check the work of an agent that answers questions by SQL. Say Yes if its solution is right, else No."
ASK = "Is this solution right? Answer Yes or No."
WORDS = ("Yes", "No")


@dataclass(frozen=True)
class Asked:
    """A question as a policy sees it."""

    question: str
    evidence: str
    schema: str  # the rendered S'


@dataclass(frozen=True)
class Verified:
    """v of each candidate, and the tokens that were read for all of them."""

    chances: tuple[float | None, ...]
    tokens: int


def verify(model, env: Environment, asked: Sequence[tuple[Asked, Candidate]], micro_tokens: int, share: bool
           ) -> Verified:
    """v of each candidate by the weights of `model`. `share`: it can encode a prompt once for both words."""
    from serl.train.scoring import Tail, score

    prompts = [_fitting(env, question, candidate) for question, candidate in asked]
    distinct = list(dict.fromkeys(prompt for prompt in prompts if prompt is not None))
    words = [tuple(env.framing.encode(word)) for word in WORDS]
    tails = [Tail([*prompt, *word], len(prompt), len(prompt) - 1) for prompt in distinct for word in words]
    logps = [float(logp.sum()) for logp in score(model, tails, micro_tokens, 1.0, share)]
    chances = {prompt: 1 / (1 + math.exp(min(700.0, no - yes)))
               for prompt, yes, no in zip(distinct, logps[::2], logps[1::2])}
    return Verified(tuple(prompt and chances[prompt] for prompt in prompts), sum(map(len, distinct)))


def _fitting(env: Environment, asked: Asked, candidate: Candidate) -> tuple[int, ...] | None:
    """The first prompt that leaves room for an answer."""
    if not candidate.answered:
        return None
    room = env.max_length - max(len(env.framing.encode(word)) for word in WORDS)
    for work in (candidate.text, candidate.sql):
        ids = _prompt(env, asked, candidate, work)
        if len(ids) <= room:
            return tuple(ids)
    return None


def _prompt(env: Environment, asked: Asked, candidate: Candidate, work: str) -> list[int]:
    """Tokens of the question about a candidate. What it says of itself cannot forge a turn, nor can the data."""
    config = env.config
    evidence = f"\nEvidence: {neutralize(asked.evidence)}" if asked.evidence else ""
    shown = "\n".join(neutralize(line) for line in work.splitlines())
    result = render_outcome(candidate.result, config.observation_rows, config.observation_chars)
    user = (f"{asked.schema}{evidence}\nQuestion: {neutralize(asked.question)}\n\nThe agent's work:\n{shown}\n"
            f"Result of its solution:\n{result}\n\n{ASK}")
    ids = env.framing.prompt_ids([{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}])
    return [*ids, *env.framing.encode(f"{CLOSE_THINKING}\n")] if env.dialect.thinking_open else ids
