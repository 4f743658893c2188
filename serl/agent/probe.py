"""What a chat template does with a conversation like ours, found out by rendering one.

A template fits if, for some role of observations, each longer conversation extends the shorter one:

    render(question) + action + before + observation + after = render(question, action, observation)

and again for a second turn. Some templates drop earlier thinking, move the system text to the last user message, or
write tool answers as JSON: then other roles are tried (Qwen3 keeps the thinking before `tool` messages; with Mistral's
the system text opens the first question). White space between what opens the assistant's message and the action is
left to the policy. A template that asks for the date is told a fixed one, since a prompt must not change at midnight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise, product
from typing import Any

from jinja2 import TemplateError

from serl.agent.dialects import CLOSE_THINKING, OPEN_THINKING, Dialect, opens_thinking
from serl.errors import InputError

TODAY = date(2024, 7, 26)  # the date that Llama 3's template itself falls back to
Message = dict[str, str]
_QUESTION = "probe-question"
_OPENING = ({"role": "system", "content": "probe-system"}, {"role": "user", "content": _QUESTION})
# Thinking in the spacing that Qwen3's template gives it when it renders a turn again; quotes and line breaks show
# whether a template writes messages as they are.
_THOUGHT, _ACTION = f"probe\n{CLOSE_THINKING}\n\n", 'probe {"action"}\n<probe>'
_OBSERVATION = '<probe>\n"observation"\n</probe>'


@dataclass(frozen=True)
class Template:
    """A tokenizer's chat template, with what it is given beside the messages."""

    tokenizer: object
    tools: tuple[Mapping[str, Any], ...] = ()  # which it describes
    told: str = ""  # of the tools, in the system message, since the template would not describe them

    @property
    def name(self) -> str:
        return self.tokenizer.name_or_path

    @property
    def opening(self) -> list[Message]:
        """A system message and a question, for probing."""
        return list(_OPENING)

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation up to where the assistant speaks next. TemplateError where the template refuses it."""
        return self.tokenizer.apply_chat_template(list(messages), tools=list(self.tools) or None, tokenize=False,
                                                  add_generation_prompt=True, strftime_now=TODAY.strftime)

    def fold(self, messages: Sequence[Message], system_role: bool) -> list[Message]:
        """Messages with all that the system says in the place where the template can show it."""
        system, *rest = messages
        if system["role"] != "system":
            return list(messages)
        text = f"{system['content']}\n\n{self.told}" if self.told else system["content"]
        if system_role:
            return [{"role": "system", "content": text}, *rest]
        return [{"role": "user", "content": f"{text}\n\n{rest[0]['content']}"}, *rest[1:]]


@dataclass(frozen=True)
class Shape:
    """The roles that fit a template, and the text that it puts around messages."""

    system_role: bool
    observation_role: str
    before_observation: str
    after_observation: str
    after_question: str
    opened: str  # what the assistant's messages begin with: "", or thinking that is open or empty


def probe(tokenizer, dialect: Dialect, answered: bool) -> tuple[Template, Shape]:
    """The template and the shape that fit `dialect`; InputError if there is none.

    `answered`: there may be observations; without, only the first prompt is looked at.
    """
    if not tokenizer.chat_template:
        raise InputError(f"model {tokenizer.name_or_path}: its tokenizer has no chat template; use an "
                         "instruct model, or save one with tokenizer.chat_template = ...")
    template = _with_tools(Template(tokenizer), dialect)
    systems = [True, False] if _shows_system(template) else [False]
    roles = [role for role in dialect.observation_roles if role != "tool" or _knows_tools(template)]
    for system_role, role in product(systems, roles):
        shape = _shape(template, system_role, role, 2 if answered else 0)
        if shape is not None:
            return template, shape
    raise InputError(f"model {template.name}: its chat template rewrites earlier turns when an "
                     "observation follows, so sampled tokens could not be kept; use another template")


def _with_tools(template: Template, dialect: Dialect) -> Template:
    """The tools in the template's own words, if it has any that the dialect understands; else in the dialect's."""
    if not dialect.tools:
        return template
    given = replace(template, tools=dialect.tools)
    try:
        described = dialect.describes_tools(given.render(_OPENING))
    except TemplateError:
        described = False
    return given if described else replace(template, told=dialect.tools_in_words())


def _shows_system(template: Template) -> bool:
    try:
        return _OPENING[0]["content"] in template.render(_OPENING)
    except TemplateError:
        return False


def _knows_tools(template: Template) -> bool:
    """Whether `tool` is more to the template than a name to write before a message."""
    def rendered(role: str) -> str | None:
        try:
            return template.render([*_OPENING, {"role": "assistant", "content": _ACTION},
                                    {"role": role, "content": _OBSERVATION}])
        except TemplateError:
            return None

    known, unknown = rendered("tool"), rendered("no-such-role")
    return known is not None and (unknown is None or known.lower() != unknown.lower().replace("no-such-role", "tool"))


def _shape(template: Template, system_role: bool, role: str, turns: int) -> Shape | None:
    """The shape of `turns` turns; None if the template refuses these roles, or rewrites what came before."""
    opening = template.fold(_OPENING, system_role)
    try:
        first = template.render(opening)
        after_question = first.rpartition(_QUESTION)[2]
        _, tag, more = after_question.rpartition(OPEN_THINKING)
        opened = f"{tag}{more}" if tag else ""
        if not opened:
            sampled = f"{OPEN_THINKING}\n{_THOUGHT}{_ACTION}"
        else:  # what the policy samples completes the thinking that the template has opened
            sampled = _THOUGHT + _ACTION if opens_thinking(opened) else _ACTION
        turn = [{"role": "assistant", "content": opened + sampled}, {"role": role, "content": _OBSERVATION}]
        texts = [first, *(template.render(opening + turn * count) for count in range(1, turns + 1))]
    except TemplateError:
        return None
    around = []
    for shorter, longer in pairwise(texts):
        gap, _, rest = longer[len(shorter):].partition(sampled)
        if not longer.startswith(shorter) or gap.strip() or rest.count(_OBSERVATION) != 1:
            return None
        around.append(tuple(rest.split(_OBSERVATION)))
    if len(set(around)) > 1:
        return None
    return Shape(system_role, role, *(around[0] if around else ("", "")), after_question, opened)
