"""P("Yes"): the number is the model's own, the prompt fits, and each question is asked once."""

import math

import pytest
import torch

from serl.agent.env import Environment
from serl.config import AgentConfig
from serl.select.verify import ASK, WORDS, Asked, verify
from tests.models import tiny_model, tiny_tokenizer
from tests.select.made import candidate, failed

ASKED = Asked("How many cities?", "a city has people", "city(id int pk, name text)")


@pytest.fixture(scope="module")
def policy():
    tokenizer = tiny_tokenizer()
    return tiny_model(len(tokenizer)), tokenizer


def environment(tokenizer, max_length=2000):
    return Environment.build(tokenizer, AgentConfig(prompt="brief", max_new_tokens=32), max_length)


def prompt_of(env, work, result):
    from serl.select.verify import SYSTEM

    user = (f"{ASKED.schema}\nEvidence: {ASKED.evidence}\nQuestion: {ASKED.question}\n\nThe agent's work:\n{work}\n"
            f"Result of its solution:\n{result}\n\n{ASK}")
    return env.framing.prompt_ids([{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}])


def direct(model, env, prompt):
    """The same by the definition: a word's tokens, one after the other, each from the whole softmax."""
    found = []
    for word in WORDS:
        ids, total = list(prompt), 0.0
        for token in env.framing.encode(word):
            with torch.no_grad():
                logits_V = model(torch.tensor([ids])).logits[0, -1]
            total += float(logits_V.log_softmax(-1)[token])
            ids.append(token)
        found.append(math.exp(total))
    return found[0] / sum(found)


@pytest.mark.parametrize("share", [True, False])
def test_it_is_the_models_chance_of_yes_against_no(policy, share):
    model, tokenizer = policy
    env = environment(tokenizer)
    asked = [candidate((3,), sql="SELECT count(*) FROM city", text="say <b>\nit"), candidate((3,), sql="SELECT 3"),
             failed()]
    found = verify(model, env, [(ASKED, each) for each in asked], 4000, share)
    prompts = [prompt_of(env, "say < b>\nit", "1 row\na\n3"), prompt_of(env, "", "1 row\na\n3")]
    assert found.chances[:2] == pytest.approx([direct(model, env, prompt) for prompt in prompts], abs=1e-5)
    assert found.chances[2] is None  # nothing to say of an answer that is none
    assert found.tokens == sum(map(len, prompts))


def test_the_same_work_is_asked_about_once(policy):
    model, tokenizer = policy
    env = environment(tokenizer)
    twice = verify(model, env, [(ASKED, candidate((3,), text="x"))] * 2, 4000, True)
    assert twice.chances[0] == twice.chances[1]
    assert twice.tokens == len(prompt_of(env, "x", "1 row\na\n3"))


def test_long_work_is_shown_by_its_sql_and_what_does_not_fit_is_not_asked(policy):
    model, tokenizer = policy
    long = candidate((3,), sql="SELECT 3", text="thinking " * 3000)
    short = prompt_of(environment(tokenizer), "SELECT 3", "1 row\na\n3")
    longest = max(len(tokenizer.encode(word)) for word in WORDS)
    env = environment(tokenizer, len(short) + longest)
    found = verify(model, env, [(ASKED, long)], 4000, True)
    assert found.tokens == len(short) and found.chances[0] == pytest.approx(direct(model, env, short), abs=1e-5)
    assert verify(model, environment(tokenizer, len(short) + longest - 1), [(ASKED, long)], 4000, True).chances == (
        None,)
