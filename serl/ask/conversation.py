"""`serl ask` at work: one question, or a conversation in which questions may refer to earlier ones.

In a conversation each question goes to the policy with the ones before it and their SQL (see `serl.ask.question`).
`/new` forgets them, `/quit` or the end of the input ends it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

from serl.ask.answer import Answer
from serl.ask.asker import Asker
from serl.ask.question import EARLIER, Asked, Exchange
from serl.ask.terminal import Terminal
from serl.errors import InputError

NEW, QUIT = "/new", "/quit"
_PROMPT = "? "


def ask(asker: Asker, asked: Asked, terminal: Terminal) -> Answer:
    """Ask one question, and show all that comes of it. InputError where it cannot be asked."""
    answer = asker.answer(asked, terminal)
    if asker.sampling.n > 1:
        terminal.choice(answer)
    terminal.answer(answer)
    return answer


def converse(asker: Asker, first: Asked, lines: Iterator[str], terminal: Terminal) -> bool:
    """Ask every line; whether all of them were answered. `first` says of which database, and with which evidence.

    A question that cannot be asked is told, and the conversation goes on.
    """
    earlier: tuple[Exchange, ...] = ()
    good = True
    for line in lines:
        question = line.strip()
        if question == QUIT:
            break
        if question == NEW:
            earlier = ()
        elif question:
            try:
                answer = ask(asker, replace(first, question=question, earlier=earlier), terminal)
            except InputError as error:
                terminal.line(terminal.paint("bad", str(error)))
                good = False
                continue
            earlier = (*earlier, Exchange(question, answer.sql))[-EARLIER:]
            good = good and answer.answered
    return good


def typed(stream: TextIO, terminal: Terminal) -> Iterator[str]:
    """Lines as they are typed, or of a file or pipe."""
    if not stream.isatty():
        yield from stream
        return
    import readline  # noqa: F401  (lets input() go back and forth in a line, and remember lines)

    terminal.line(terminal.paint("dim", f"Ask; follow-ups may refer to earlier questions. {NEW} forgets them, {QUIT} "
                                        "ends."))
    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            return
