"""Chat framing: turns are appended and equal what the template would have rendered, or it is refused."""

import pytest

from serl.agent.chat import ChatFraming
from serl.errors import InputError
from tests.models import tiny_tokenizer

CHATML = tiny_tokenizer().chat_template
# As Qwen3's does: drops the thinking of assistant turns before the last real user message (tool answers are not one),
# and gives the thinking that it keeps a spacing of its own.
QWEN3_LIKE = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n"
    "{{ m.content }}\n</tool_response><|im_end|>\n{% elif m.role == 'assistant' and '</think>' in m.content %}"
    "{% set parts = m.content.split('</think>') %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last %}<think>\n{{ parts[0].split('<think>')[-1].strip('\n') }}\n</think>\n\n{% endif %}"
    "{{ parts[-1].lstrip('\n') }}<|im_end|>\n{% else %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SYSTEMLESS = (  # Gemma-like: no system role, alternating turns, the assistant is called model
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|im_start|>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>model\n{% endif %}")
LLAMA_LIKE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}<|im_end|>\n\n{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_end|>\n\n{% endif %}")
FORGETFUL = (  # shows only the last message: nothing that was sampled survives
    "{% for m in messages %}{% if loop.last %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")

PLAIN = (  # no special tokens at all: the words USER and ASSISTANT around the text
    "{% for m in messages %}{{ m.role.upper() }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}")

MESSAGES = [{"role": "system", "content": "SQL"}, {"role": "user", "content": "city(id)\nQuestion: how many?"}]
ACTION, OBSERVATION = "<think>\nhm\n</think>\n\n<sql>SELECT 1</sql>", "<observation>\n1 row\n</observation>"


def framing_of(template: str) -> ChatFraming:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return ChatFraming.derive(tokenizer)


@pytest.mark.parametrize("template", [CHATML, QWEN3_LIKE, SYSTEMLESS, LLAMA_LIKE])
def test_appended_turns_equal_what_the_template_renders(template):
    framing = framing_of(template)
    tokenizer = framing.tokenizer
    ids = framing.prompt_ids(MESSAGES)
    for _ in range(2):
        action = tokenizer.encode(ACTION, add_special_tokens=False)
        ids += [*action, *framing.observation_ids(OBSERVATION, action)]
    opening = MESSAGES if framing.system_role else [{"role": "user", "content": "SQL\n\n" + MESSAGES[1]["content"]}]
    turn = [{"role": "assistant", "content": ACTION}, {"role": framing.observation_role, "content": OBSERVATION}]
    rendered = tokenizer.apply_chat_template(opening + turn * 2, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids, skip_special_tokens=False) == rendered


def test_a_template_that_drops_earlier_thinking_gets_its_observations_as_tool_answers():
    assert framing_of(QWEN3_LIKE).observation_role == "tool"
    assert framing_of(CHATML).observation_role == "user"


def test_a_template_without_a_system_role_gets_the_system_text_in_the_question():
    framing = framing_of(SYSTEMLESS)
    assert not framing.system_role
    assert "user\nSQL\n\ncity(id)" in framing.tokenizer.decode(framing.prompt_ids(MESSAGES))


def test_a_sampled_end_token_is_not_repeated_by_the_framing():
    framing = framing_of(CHATML)
    action = framing.tokenizer.encode(ACTION + "<|im_end|>", add_special_tokens=False)
    without, with_end = framing.observation_ids(OBSERVATION, action[:-1]), framing.observation_ids(OBSERVATION, action)
    assert [action[-1], *with_end] == without


@pytest.mark.parametrize("template", [CHATML, QWEN3_LIKE, SYSTEMLESS, LLAMA_LIKE, PLAIN])
def test_the_splice_point_is_just_before_the_close_of_the_last_message(template):
    framing = framing_of(template)
    decode = framing.tokenizer.decode
    prompt = framing.prompt_ids(MESSAGES)
    assert decode(prompt[: framing.splice_at(len(prompt), first_turn=True)]).endswith("how many?")
    longer = prompt + framing.observation_ids(OBSERVATION, [])
    assert decode(longer[: framing.splice_at(len(longer), first_turn=False)]).endswith("</observation>")


def test_a_template_that_rewrites_earlier_turns_is_refused():
    with pytest.raises(InputError, match="rewrites earlier turns"):
        framing_of(FORGETFUL)


def test_a_tokenizer_without_a_template_is_refused():
    with pytest.raises(InputError, match="no chat template"):
        framing_of(None)
