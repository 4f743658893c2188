"""What `serl ask` writes for people: turns as they come, thinking dimmed, SQL in colours, results as tables.

Colours only on a terminal, and not where NO_COLOR is set (https://no-color.org) or TERM is dumb. What a model or a
database says cannot move the cursor or forge a line.
"""

import os
from collections.abc import Mapping
from typing import TextIO

from serl.agent.dialects import Kind
from serl.agent.token_bytes import TokenBytes
from serl.agent.trajectory import Trajectory, Turn
from serl.ask.answer import Answer, Sample, thinking
from serl.ask.asker import Listener, Sampling
from serl.ask.highlight import highlight
from serl.sql.outcome import Outcome
from serl.sql.table import cell, printable, table

_RESET = "\x1b[0m"
_STYLES = {"dim": "\x1b[2m", "keyword": "\x1b[1;34m", "string": "\x1b[32m", "number": "\x1b[35m", "good": "\x1b[1;32m",
           "bad": "\x1b[31m", "head": "\x1b[1m"}


def wants_color(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether colours go well there."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


class Terminal(Listener):
    """Writes to `stream`: of one sample its turns, of several a line each."""

    def __init__(self, stream: TextIO, color: bool, token_bytes: TokenBytes, sampling: Sampling) -> None:
        self.stream, self.color, self.token_bytes, self.sampling = stream, color, token_bytes, sampling

    def paint(self, style: str, text: str) -> str:
        """The text, made harmless, in a style if there is colour."""
        text = printable(text)
        return f"{_STYLES[style]}{text}{_RESET}" if self.color and style in _STYLES and text else text

    def line(self, text: str = "") -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def sql(self, sql: str) -> str:
        return highlight(sql.strip(), self.paint)

    def turn(self, place: int, trajectory: Trajectory, answered: bool) -> None:
        if self.sampling.n > 1:
            return
        turn = trajectory.turns[-1]
        if not answered:
            self.action(turn, trajectory)
        elif turn.outcome is not None and turn.parsed.kind is not Kind.FINAL:
            self.result(turn.outcome)

    def ended(self, place: int, sample: Sample) -> None:
        if self.sampling.n == 1:
            return
        sql, outcome = sample.trajectory.final_sql, sample.trajectory.final_outcome
        none = self.paint("dim", f"no final SQL ({sample.trajectory.stop})")
        said = none if sql is None else self.sql(" ".join(sql.split()))
        came = "" if outcome is None else _rows(outcome.row_count) if outcome.ran else str(outcome.status)
        self.line(f"{self.paint('dim', f'{place + 1}/{self.sampling.n}')} {said}  {self.paint('dim', came)}")

    def action(self, turn: Turn, trajectory: Trajectory) -> None:
        """What the policy thought and did."""
        if thought := thinking(turn, trajectory, self.token_bytes):
            self.line(self.paint("dim", thought))
        if turn.parsed.sql is None:
            self.line(self.paint("bad", f"{turn.parsed.kind}: {turn.parsed.reason}"))
        elif turn.parsed.kind is not Kind.FINAL:  # which is shown with its rows
            self.line(f"{self.paint('head', '>')} {self.sql(turn.parsed.sql)}")

    def result(self, outcome: Outcome) -> None:
        """What the database said: a table, and how many rows, or what went wrong."""
        for text in table(outcome, self.sampling.rows):
            self.line(f"  {text}")
        if outcome.ran:
            self.line("  " + self.paint("dim", f"{_rows(outcome.row_count)}, {outcome.ms:.0f} ms"))
        else:
            self.line("  " + self.paint("bad", f"{outcome.status}: {outcome.error}"))

    def choice(self, answer: Answer) -> None:
        """Why the chosen sample won: results by their votes."""
        self.line()
        for vote in answer.votes:
            won, first = answer.chosen in vote.members, answer.samples[vote.members[0]].trajectory
            votes = f"{len(vote.members)} of {len(answer.samples)}"
            what = _preview(first.final_outcome) if vote.key is not None else "no result: cannot be chosen by votes"
            self.line(self.paint("good" if won else "dim", f"{'*' if won else ' '} {votes:>8}  {what}"))
        self.line(self.paint("dim", f"  chosen by {answer.selector}"
                             + ("" if answer.chosen is None else f": sample {answer.chosen + 1}")))

    def answer(self, answer: Answer) -> None:
        """The final SQL and its rows."""
        self.line()
        if answer.sql is not None:
            self.line(self.sql(answer.sql))
        if answer.answered:
            self.result(answer.outcome)
        else:
            self.line(self.paint("bad", answer.why_not))


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _preview(outcome: Outcome) -> str:
    """A result in a line: its size and its first row."""
    first = f": {', '.join(cell(value) for value in outcome.rows[0][:4])}" if outcome.rows else ""
    return _rows(outcome.row_count) + first + (", ..." if outcome.row_count > 1 else "")
