"""What an engine that cannot ask the dialect's rule is asked for one action.

An engine stops at the text of a closing tag. Whether that ends the action is for the dialect to say: a tag quoted in
thinking does not, and then the engine is asked to go on from there. Tokens beyond the end are cut.
"""

from typing import Any

import numpy as np

from serl.generate.stopping import ActionTokens


def sampling(action: ActionTokens, temperature: float, seed: int | None) -> dict[str, Any]:
    """vLLM's sampling parameters for the rest of an action; without a seed, the most probable tokens.

    Everything that a server's or a model's defaults could change is said: the policy is softmax(logits / temperature).
    """
    rule = action.rule
    return {
        "temperature": 0.0 if seed is None else temperature, "seed": seed,
        "top_p": 1.0, "top_k": 0, "min_p": 0.0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "max_tokens": action.limit - len(action.ids), "min_tokens": 0,
        "stop": list(rule.tags), "stop_token_ids": sorted(rule.eos_ids), "ignore_eos": True,
        "skip_special_tokens": False, "spaces_between_special_tokens": False,  # tags may be special tokens
        "logprobs": 0,  # of the sampled token alone
    }


def seed_of(seed: int, stream: tuple[int, ...] | None, sampled: int) -> int | None:
    """The seed (63 bits) of a request that goes on with stream `stream` after `sampled` tokens; None: greedy.

    >>> seed_of(1, (0, 2), 0) == seed_of(1, (0, 2), 0) != seed_of(1, (0, 2), 5)
    True
    """
    if stream is None:
        return None
    return int(np.random.SeedSequence([seed, *stream, sampled]).generate_state(1, np.uint64)[0] >> 1)
