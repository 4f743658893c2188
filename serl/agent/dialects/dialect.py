"""What every dialect is: the language in which a policy thinks, acts and is answered.

    parse         sampled bytes → Action (typed events with spans); only sampled bytes are parsed, never observations
    form          the same bytes read to the letter, for a reward
    is_complete   where sampling of an action stops: at a closing tag outside of thinking
    write         the text of an action, which `parse` reads back
    observation   the frame of an answer
    instructions  how a prompt explains all this to a model

Thinking is the same in all of them: `<think>...</think>`, optional, in front. The action is what follows it, so that a
tag that is quoted in thinking is not an action.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from serl.agent.dialects.events import Action, Check, Event, Kind, Malformed, Think, Written
from serl.agent.dialects.form import Form
from serl.agent.spans import Span

THINK_TAG = "think"
OPEN_THINKING, CLOSE_THINKING = f"<{THINK_TAG}>", f"</{THINK_TAG}>"
_OPEN, _CLOSE = OPEN_THINKING.encode(), CLOSE_THINKING.encode()
W = TypeVar("W", bound=Written)


def opens_thinking(text: str) -> bool:
    """Whether a message that begins with `text` goes on inside of thinking.

    >>> opens_thinking("<think>\\n"), opens_thinking("<think>\\n</think>\\n"), opens_thinking("")
    (True, False, False)
    """
    return text.rfind(OPEN_THINKING) > text.rfind(CLOSE_THINKING)


@dataclass(frozen=True)
class Dialect(ABC):
    """One dialect. With `thinking_open` the prompt has opened the thinking that an action begins with."""

    thinking_open: bool = False

    name: ClassVar[str]
    tags: ClassVar[tuple[str, ...]]  # names of all its tags
    stop_tags: ClassVar[tuple[bytes, ...]]  # an action ends with one of these
    solution: ClassVar[str]  # what it calls the final SQL, in a word
    tools: ClassVar[tuple[Mapping[str, Any], ...]] = ()  # as JSON schemas, for the chat template or the system message
    observation_roles: ClassVar[tuple[str, ...]] = ("user", "tool")  # chat roles of an observation, the best first

    def parse(self, sampled: bytes) -> Action:
        """What one action's sampled bytes say."""
        start, end = self.after_thinking(sampled), len(sampled)
        begin = self._begin_of_thinking(sampled)
        if start is None:
            return Action.of([Think((begin, end)), Malformed((end, end), "the thinking was not closed with </think>")])
        thought = [] if begin is None else [Think((begin, start - len(_CLOSE)))]
        return Action.of([*thought, *self.read(sampled, start)])

    def form(self, sampled: bytes) -> Form:
        """Whether one action keeps the form, and its parts. A dialect may ask for more than that it can be read."""
        action = self.parse(sampled)
        thinking = next((event.span for event in action.events if isinstance(event, Think)), None)
        return Form(action.reason, thinking, action.sql_span, action.sql_span)

    @abstractmethod
    def read(self, sampled: bytes, start: int) -> Iterator[Event]:
        """The events behind the thinking; the last one is the action, or says what is wrong with it."""

    def is_complete(self, sampled: bytes, fresh: int) -> bool:
        """Whether the last `fresh` bytes complete a closing tag outside of thinking: sampling stops there."""
        start = self.after_thinking(sampled)
        if start is None:
            return False
        start = max(start, len(sampled) - fresh - max(map(len, self.stop_tags)) + 1)
        return any(sampled.find(tag, start) >= 0 for tag in self.stop_tags)

    def after_thinking(self, sampled: bytes) -> int | None:
        """Where the action may begin: behind the thinking, 0 without one, None while it is open."""
        if self._begin_of_thinking(sampled) is None:
            return 0
        close = sampled.find(_CLOSE)
        return None if close < 0 else close + len(_CLOSE)

    def write(self, kind: Kind, text: str, thinking: str = "", verdicts: Iterable[tuple[Check, bool]] = ()) -> str:
        """The text of an action. ValueError where the dialect cannot say it, since `parse` would not read it back."""
        opening = "" if self.thinking_open else OPEN_THINKING
        thought = f"{opening}{thinking}{CLOSE_THINKING}" if thinking or self.thinking_open else ""
        written = thought + "".join(self.verdict(*each) for each in verdicts) + self.action(kind, text)
        sampled = written.encode()
        parsed, ends_early = self.parse(sampled), self.is_complete(sampled[:-1], len(sampled))
        last = parsed.events[-1]
        if ends_early or parsed.kind is not kind or not isinstance(last, Written) or last.text != text:
            raise ValueError(f"dialect {self.name}: this {kind} cannot be written, for it would not be read back: "
                             f"{text!r}")
        return written

    @abstractmethod
    def action(self, kind: Kind, text: str) -> str:
        """The text of an action without thinking. ValueError for a kind that the dialect does not have."""

    def verdict(self, check: Check, passed: bool) -> str:
        """The text of a verdict. ValueError in a dialect that has none."""
        raise ValueError(f"dialect {self.name} has no verdicts")

    @abstractmethod
    def observation(self, body: str, role: str) -> str:
        """The text of an observation that the chat template shows in this role."""

    @abstractmethod
    def instructions(self, turns: str) -> str:
        """The system message: task, actions, and `turns`, a sentence that says how many there are."""

    def tools_in_words(self) -> str:
        """What the system message says of the tools where the chat template does not describe them."""
        return ""

    def describes_tools(self, rendered: str) -> bool:
        """Whether a chat template that was given the tools has told of them in a way that this dialect reads."""
        return False

    def _begin_of_thinking(self, sampled: bytes) -> int | None:
        """Where the thinking begins; None: there is none. What the prompt has opened may be opened once more."""
        body = len(sampled) - len(sampled.lstrip())
        if sampled.startswith(_OPEN, body):
            return body + len(_OPEN)
        return 0 if self.thinking_open else None


def written(kind: type[W], sampled: bytes, span: Span) -> W | Malformed:
    """The text that stands in `span` as it is; malformed where its bytes are no UTF-8."""
    try:
        text = sampled[slice(*span)].decode("utf-8")
    except UnicodeDecodeError:
        return Malformed(span, "the SQL is not valid UTF-8")
    offsets = [span[0]]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return kind(span, text, tuple(offsets))
