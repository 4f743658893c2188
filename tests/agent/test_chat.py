"""Chat framing: turns are appended and equal what the template would have rendered, or it is refused."""

import pytest
from jinja2 import TemplateError

from serl.agent.chat import ChatFraming
from serl.agent.dialects import DIALECTS, Kind
from serl.agent.env import Environment
from serl.agent.token_bytes import TokenBytes
from serl.config import AgentConfig
from serl.errors import InputError
from tests.agent.templates import LLAMA3, MISTRAL, MODELS, QWEN3, QWEN25, R1_MODEL, Model
from tests.models import tiny_tokenizer

MESSAGES = [{"role": "system", "content": "SQL"}, {"role": "user", "content": "city(id)\nQuestion: how many?"}]
THOUGHT = "<think>\nhm\n</think>\n\n"  # in the spacing that Qwen3's template gives to what it renders again
FORGETFUL = (  # shows only the last message: nothing that was sampled survives
    "{% for m in messages %}{% if loop.last %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def framing_of(model: Model | str, dialect: str = "xml", prefill: str = "", answered: bool = True) -> ChatFraming:
    """Of a model of `MODELS`, or of the tiny tokenizer with a template."""
    tokenizer = model.tokenizer if isinstance(model, Model) else tiny_tokenizer()
    if not isinstance(model, Model):
        tokenizer.chat_template = model
    return ChatFraming.derive(tokenizer, TokenBytes(tokenizer), DIALECTS[dialect], prefill, answered)


@pytest.fixture(scope="module", params=[(name, dialect) for name in MODELS for dialect in ("xml", "hermes")],
                ids=" ".join)
def framed(request) -> tuple[str, ChatFraming]:
    name, dialect = request.param
    return name, framing_of(MODELS[name], dialect)


def said(framing: ChatFraming, ids: list[int]) -> str:
    return framing.token_bytes.join(ids).decode()


def conversation(framing: ChatFraming, turns: int) -> tuple[list[int], list[dict[str, str]]]:
    """The tokens of an appended conversation, and the messages that it should say."""
    dialect = DIALECTS[framing.dialect.name]
    ids, messages = framing.prompt_ids(MESSAGES), framing.template.fold(MESSAGES, framing.system_role)
    for number in range(turns):
        content = THOUGHT + dialect.write(Kind.SQL, f'SELECT "{number}"')
        sampled = content.removeprefix(framing.shape.opened)
        action = framing.tokenizer.encode(sampled, add_special_tokens=False)
        observation = dialect.observation("1 row\nturns left: 1", framing.observation_role)
        ids += [*action, *framing.observation_ids(framing.encode(observation), action)]
        messages += [{"role": "assistant", "content": content},
                     {"role": framing.observation_role, "content": observation}]
    return ids, messages


def test_appended_turns_equal_what_the_template_renders(framed):
    name, framing = framed
    for turns in range(4):
        ids, messages = conversation(framing, turns)
        appended, rendered = said(framing, ids), framing.template.render(messages)
        if name == "mistral":  # whose tokenizer puts spaces behind special tokens of its own accord
            appended, rendered = appended.replace(" ", ""), rendered.replace(" ", "")
        assert appended == rendered


def test_the_splice_point_is_just_before_the_close_of_the_last_message(framed):
    _, framing = framed
    prompt, _ = conversation(framing, 0)
    assert said(framing, prompt[: framing.splice_at(len(prompt), first_turn=True)]).endswith("how many?")
    longer, _ = conversation(framing, 2)
    observation = framing.dialect.observation("1 row\nturns left: 1", framing.observation_role)
    assert said(framing, longer[: framing.splice_at(len(longer), first_turn=False)]).endswith(observation)


def test_the_tokens_of_a_prompt_are_those_of_the_rendered_text(framed):
    _, framing = framed
    text = framing.template.render(framing.template.fold(MESSAGES, framing.system_role))
    assert framing.prompt_ids(MESSAGES) == framing.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(("name", "dialect", "system", "role", "opens", "tools"), [
    ("smollm2", "xml", True, "user", False, None),
    ("smollm2", "hermes", True, "user", False, "told"),  # it would write any role, but knows no tools
    ("qwen2.5", "xml", True, "user", False, None),
    ("qwen2.5", "hermes", True, "tool", False, "described"),
    ("qwen3", "xml", True, "tool", False, None),  # what the user says would end the thinking before it
    ("qwen3", "hermes", True, "tool", False, "described"),
    ("qwen3-thinking", "xml", True, "tool", True, None),
    ("qwen3-thinking", "hermes", True, "tool", True, "described"),
    ("llama3", "xml", True, "user", False, None),
    ("llama3", "hermes", True, "user", False, "told"),  # its calls are of another format, its tool answers JSON
    ("gemma", "xml", False, "user", False, None),
    ("gemma", "hermes", False, "user", False, "told"),
    ("mistral", "xml", False, "user", False, None),  # the system text would move to the last message
    ("mistral", "hermes", False, "user", False, "told"),
    ("plain", "hermes", True, "user", False, "told"),
])
def test_each_template_gets_the_roles_that_it_can_show(name, dialect, system, role, opens, tools):
    framing = framing_of(MODELS[name], dialect)
    assert (framing.system_role, framing.observation_role, framing.dialect.thinking_open) == (system, role, opens)
    prompt = framing.prompt_text(MESSAGES)
    assert prompt.count('"name": "exec_sql"') == {None: 0, "told": 2, "described": 1}[tools]
    assert ("Functions:" in prompt) == (tools == "described")
    assert "I am Q." not in prompt and "A small model." not in prompt


def test_a_template_without_a_system_role_gets_the_system_text_in_the_question():
    framing = framing_of(MODELS["gemma"])
    assert "<start_of_turn>user\nSQL\n\ncity(id)" in said(framing, framing.prompt_ids(MESSAGES))


def test_a_prompt_does_not_change_with_the_date():
    assert "Today: 26 Jul 2024\n" in framing_of(MODELS["llama3"]).prompt_text(MESSAGES)
    assert "strftime_now" in LLAMA3


def test_a_template_that_writes_tool_answers_as_json_or_wants_ids_for_them_is_given_none():
    for template in (LLAMA3, MISTRAL):
        assert "tool" in template
    with pytest.raises(TemplateError):
        framing_of(MODELS["mistral"]).template.render([*MESSAGES, {"role": "tool", "content": "1"}])


def test_a_sampled_end_token_is_not_repeated_by_the_framing():
    framing = framing_of(QWEN25)
    text = framing.encode("1 row")
    action = framing.tokenizer.encode("<sql>SELECT 1</sql><|im_end|>", add_special_tokens=False)
    without, with_end = framing.observation_ids(text, action[:-1]), framing.observation_ids(text, action)
    assert [action[-1], *with_end] == without


@pytest.mark.parametrize(("name", "end"), [
    ("qwen2.5", "<|im_end|>"), ("llama3", "<|eot_id|>"), ("gemma", "<end_of_turn>"), ("mistral", "</s>"),
    ("plain", None)])  # a line break closes its messages, and may stand in an action
def test_what_closes_the_assistants_message_ends_an_action_whatever_the_models_files_say(name, end):
    """Gemma 1.1 and base models with a chat template name another end token."""
    tokenizer, named = MODELS[name].tokenizer, 3
    rule = Environment.build(tokenizer, AgentConfig(prompt="brief"), 512).stop_rule({named})
    assert rule.eos_ids == ({named} if end is None else {named, tokenizer.convert_tokens_to_ids(end)})


def test_an_empty_thought_as_prefill_is_what_the_template_writes_with_thinking_disabled():
    framing = framing_of(QWEN3, prefill="<think>\n\n</think>\n\n")
    disabled = framing.tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True,
                                                     enable_thinking=False)
    assert said(framing, framing.prompt_ids(MESSAGES)) == disabled
    assert not framing.dialect.thinking_open
    again = framing.observation_ids(framing.encode("1 row"), [])
    assert said(framing, again).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert said(framing, again[:framing.splice_at(len(again), first_turn=False)]).endswith("<tool_response>\n1 row")


def test_a_prefill_may_open_the_thinking():
    framing = framing_of(QWEN25, prefill="<think>\n")
    assert said(framing, framing.prompt_ids(MESSAGES)).endswith("<|im_start|>assistant\n<think>\n")
    assert framing.dialect.thinking_open
    assert framing.dialect.parse(b"<sql>SELECT 0</sql></think><sql>SELECT 1</sql>").sql == "SELECT 1"


def test_a_prefill_where_the_template_opens_the_thinking_already_is_refused():
    with pytest.raises(InputError, match="begins the assistant's messages with '<think>"):
        framing_of(MODELS["qwen3-thinking"], prefill="<think>\n")


def test_a_template_that_rewrites_earlier_turns_is_refused():
    for template in (FORGETFUL, R1_MODEL):
        with pytest.raises(InputError, match="rewrites earlier turns"):
            framing_of(template)


def test_a_template_that_forgets_will_do_where_nothing_is_answered():
    framing = framing_of(R1_MODEL, "fence", answered=False)
    assert said(framing, framing.prompt_ids(MESSAGES)).endswith("how many?<|Assistant|><think>\n")
    assert framing.dialect.thinking_open


def test_a_tokenizer_without_a_template_is_refused():
    with pytest.raises(InputError, match="no chat template"):
        framing_of(None)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_from_outside_becomes_no_special_token(name):
    framing = framing_of(MODELS[name])
    special = {index for index, token in framing.tokenizer.added_tokens_decoder.items() if token.special}
    text = "1 row " + " ".join(framing.tokenizer.decode([index]) for index in sorted(special))
    ids = framing.encode(text)
    assert special and not special & set(ids)
    assert said(framing, ids) == text
