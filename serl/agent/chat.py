"""Chat framing: extend a conversation token by token, never render it again.

The first prompt is rendered once with the tokenizer's chat template. What closes the assistant's message, opens the
observation's, closes it and opens the next assistant message is derived at start-up from a probe conversation
(`serl.agent.probe`), and only kept if rendering the longer conversation *extends* the shorter one.
"""

from dataclasses import dataclass, replace

from serl.agent.dialects import Dialect, opens_thinking
from serl.agent.probe import Shape, Template, probe
from serl.agent.token_bytes import TokenBytes
from serl.errors import InputError


@dataclass(frozen=True)
class ChatFraming:
    """Token pieces around sampled actions and injected observations."""

    template: Template
    token_bytes: TokenBytes
    dialect: Dialect  # which knows whether the prompt opens the thinking of an action
    shape: Shape
    prefill: str  # what each of the assistant's messages begins with, after what the template opens it with
    before_observation: tuple[int, ...]  # closes the assistant's message, opens the observation's
    after_observation: tuple[int, ...]  # closes the observation's message, opens the assistant's
    after_question: tuple[int, ...]  # closes the first user message, opens the assistant's

    @classmethod
    def derive(cls, tokenizer, token_bytes: TokenBytes, dialect: Dialect, prefill: str = "", answered: bool = True
               ) -> "ChatFraming":
        """Derive and check the framing of `tokenizer`'s chat template; InputError says what is wrong.

        `answered`: actions may be answered by observations; else no template is refused for rewriting earlier turns.
        """
        template, shape = probe(tokenizer, dialect, answered)
        if prefill and shape.opened:
            raise InputError(f"config: agent.prefill is {prefill!r}, but the chat template of {template.name} begins "
                             f"the assistant's messages with {shape.opened!r} already; leave it empty")
        texts = (shape.before_observation, shape.after_observation + prefill, shape.after_question + prefill)
        pieces = [_exact(tokenizer, token_bytes, text) for text in texts]
        for text, ids in zip(texts, pieces):
            # A space that SentencePiece puts behind a special token is what it makes of whole conversations, too.
            if token_bytes.join(ids).replace(b" ", b"") != text.encode().replace(b" ", b""):
                raise InputError(f"model {template.name}: its tokenizer does not write {text!r} of its chat template "
                                 "as it is, so turns cannot be framed exactly")
        dialect = replace(dialect, thinking_open=opens_thinking(shape.opened + prefill))
        framing = cls(template, token_bytes, dialect, shape, prefill, *map(tuple, pieces))
        framing.check_splice()
        return framing

    @property
    def tokenizer(self):
        return self.template.tokenizer

    @property
    def system_role(self) -> bool:
        """False: the template has none, and the system text opens the user's message."""
        return self.shape.system_role

    @property
    def end_ids(self) -> set[int]:
        """The special token that closes the assistant's messages: some models' files do not call it an end token."""
        added = self.tokenizer.added_tokens_decoder
        return {index for index in self.before_observation[:1] if index in added and added[index].special}

    @property
    def observation_role(self) -> str:
        return self.shape.observation_role

    @property
    def around(self) -> int:
        """Tokens that an observation's framing takes at most."""
        return len(self.before_observation) + len(self.after_observation)

    def check_splice(self) -> None:
        """The text after the question must be tokens of its own, or hindsight could not go before it."""
        text = self.prompt_text(self.template.opening) + self.prefill
        after = list(self.after_question)
        if not after or self.tokenizer.encode(text, add_special_tokens=False)[-len(after):] != after:
            raise InputError(f"model {self.template.name}: the end of a user message shares a token with what "
                             "follows it in the chat template, so turns cannot be framed exactly")

    def prompt_text(self, messages: list[dict[str, str]]) -> str:
        """The first prompt as the template renders it, without `prefill`."""
        return self.template.render(self.template.fold(messages, self.shape.system_role))

    def prompt_ids(self, messages: list[dict[str, str]]) -> list[int]:
        """Tokens of the first prompt, up to where the assistant starts to speak."""
        text = self.prompt_text(messages)
        if not text.endswith(self.shape.after_question):
            raise InputError(f"model {self.template.name}: its chat template ends this question in another way than "
                             f"others: {messages[-1]['content'][-80:]!r}")
        question = text[: len(text) - len(self.shape.after_question)]
        return [*self.tokenizer.encode(question, add_special_tokens=False), *self.after_question]

    def encode(self, text: str) -> list[int]:
        """Tokens of an observation's text: none is a special one of the tokenizer, whatever the text says."""
        return _exact(self.tokenizer, self.token_bytes, text, split_special_tokens=True)

    def observation_ids(self, text_ids: list[int], sampled: list[int]) -> list[int]:
        """Tokens that follow the action `sampled` to show an observation and let the assistant speak.

        If the action ended with the very token that closes the assistant's message, it is not repeated.
        """
        before = self.before_observation
        if sampled and before and sampled[-1] == before[0]:
            before = before[1:]
        return [*before, *text_ids, *self.after_observation]

    def splice_at(self, state_length: int, first_turn: bool) -> int:
        """Index before the close of the last non-assistant message of a state of this many tokens."""
        return state_length - len(self.after_question if first_turn else self.after_observation)


def _exact(tokenizer, token_bytes: TokenBytes, text: str, **options) -> list[int]:
    """Tokens of a text that goes on from another, without the space that SentencePiece may put before its texts."""
    ids = tokenizer.encode(text, add_special_tokens=False, **options)
    written = token_bytes.join(ids)
    if len(written) - len(written.lstrip(b" ")) == len(text) - len(text.lstrip(" ")):
        return ids
    # Behind a line break, which is a token of its own (or a byte), there is no such space.
    ids = tokenizer.encode("\n" + text, add_special_tokens=False, **options)
    for count in range(1, min(3, len(ids)) + 1):
        if token_bytes.join(ids[:count]).strip(b" ") == b"\n":
            return ids[count:]
    raise InputError(f"model {tokenizer.name_or_path}: its tokenizer has a token of a line break and {text[:20]!r}, so "
                     "that text cannot follow other tokens exactly")
