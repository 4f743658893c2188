"""Chat framing: extend a conversation token by token, never render it again.

The first prompt is rendered once with the tokenizer's chat template. What closes the assistant's message,
opens the observation's, closes it and opens the next assistant message is derived at start-up from a probe
conversation, and only kept if rendering the longer conversation *extends* the shorter one. Some templates
drop earlier thinking or rewrite earlier turns: they are tried with the `tool` role for observations, which
Qwen3's keeps, and refused if that fails too.
"""

from dataclasses import dataclass
from itertools import pairwise

from jinja2 import TemplateError

from serl.errors import InputError

_QUESTION = "probe-question"
_OPENING = [{"role": "system", "content": "probe-system"}, {"role": "user", "content": _QUESTION}]
# Thinking in the spacing that Qwen3's template gives it when it renders a turn again.
_ACTION, _OBSERVATION = "<think>\nprobe\n</think>\n\nprobe-action", "probe-observation"


@dataclass(frozen=True)
class ChatFraming:
    """Token pieces around sampled actions and injected observations."""

    tokenizer: object
    system_role: bool  # False: the template has none, and the system text opens the user's message
    observation_role: str  # user | tool
    before_observation: tuple[int, ...]  # closes the assistant's message, opens the observation's
    after_observation: tuple[int, ...]  # closes the observation's message, opens the assistant's
    after_question: tuple[int, ...]  # closes the first user message, opens the assistant's

    @classmethod
    def derive(cls, tokenizer) -> "ChatFraming":
        """Derive and check the framing of `tokenizer`'s chat template; InputError says what is wrong."""
        if not tokenizer.chat_template:
            raise InputError(f"model {tokenizer.name_or_path}: its tokenizer has no chat template; use an "
                             "instruct model, or save one with tokenizer.chat_template = ...")
        system_role = _accepts_system(tokenizer)
        for role in ("user", "tool"):
            pieces = _probe(tokenizer, system_role, role)
            if pieces is not None:
                framing = cls(tokenizer, system_role, role,
                              *(tuple(_encode(tokenizer, piece)) for piece in pieces))
                framing.check_splice()
                return framing
        raise InputError(f"model {tokenizer.name_or_path}: its chat template rewrites earlier turns when an "
                         "observation follows, so sampled tokens could not be kept; use another template")

    def check_splice(self) -> None:
        """The text after the question must be tokens of its own, or hindsight could not go before it."""
        prompt, after = self.prompt_ids(_OPENING), list(self.after_question)
        if not after or prompt[-len(after):] != after:
            raise InputError(f"model {self.tokenizer.name_or_path}: the end of a user message shares a token with what "
                             "follows it in the chat template, so turns cannot be framed exactly")

    def prompt_ids(self, messages: list[dict[str, str]]) -> list[int]:
        """Tokens of the first prompt, up to where the assistant starts to speak."""
        return _encode(self.tokenizer, _render(self.tokenizer, _fold(messages, self.system_role)))

    def observation_ids(self, text: str, sampled: list[int]) -> list[int]:
        """Tokens that follow the action `sampled` to show an observation and let the assistant speak.

        If the action ended with the very token that closes the assistant's message, it is not repeated.
        """
        before = self.before_observation
        if sampled and before and sampled[-1] == before[0]:
            before = before[1:]
        return [*before, *_encode(self.tokenizer, text), *self.after_observation]

    def splice_at(self, state_length: int, first_turn: bool) -> int:
        """Index before the close of the last non-assistant message of a state of this many tokens."""
        return state_length - len(self.after_question if first_turn else self.after_observation)


def _encode(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def _render(tokenizer, messages: list[dict[str, str]]) -> str:
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def _fold(messages: list[dict[str, str]], system_role: bool) -> list[dict[str, str]]:
    if system_role or messages[0]["role"] != "system":
        return messages
    system, user, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *rest]


def _accepts_system(tokenizer) -> bool:
    try:
        return _OPENING[0]["content"] in _render(tokenizer, _OPENING)
    except TemplateError:
        return False


def _probe(tokenizer, system_role: bool, role: str) -> tuple[str, str, str] | None:
    """Text before an observation, after it and after the question; None if earlier turns are rewritten."""
    opening = _fold(_OPENING, system_role)
    turn = [{"role": "assistant", "content": _ACTION}, {"role": role, "content": _OBSERVATION}]
    try:
        texts = [_render(tokenizer, opening + turn * count) for count in range(3)]
    except TemplateError:
        return None
    pieces = []
    for shorter, longer in pairwise(texts):
        if not longer.startswith(shorter + _ACTION) or longer.count(_OBSERVATION, len(shorter)) != 1:
            return None
        pieces.append(tuple(longer[len(shorter) + len(_ACTION):].split(_OBSERVATION)))
    if pieces[0] != pieces[1]:
        return None
    return *pieces[0], texts[0].rpartition(_QUESTION)[2]
