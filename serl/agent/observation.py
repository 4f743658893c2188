"""The database's answer as the policy sees it, within caps, and never cut inside its tags.

    <observation>
    3 rows
    name | total
    Ann | 2
    ...
    turns left: 1
    </observation>

The header and the true row count are always kept; rows are dropped until the text fits the token cap. The tags are the
dialect's. The same body is the `exec` hindsight of the teacher (`serl.hindsight.context`).
"""

from grounding.safety import neutralize
from serl.sql.outcome import Outcome, Status

_TABLES = (Status.OK, Status.EMPTY, Status.TOO_LARGE)


def render_outcome(outcome: Outcome, rows: int, chars: int) -> str:
    """Status, shape, header and first rows of a result, or the engine's message; one line each.

    `rows` caps the rows shown, `chars` the characters of a cell. Cells cannot forge tags or chat tokens.
    """
    if outcome.status not in _TABLES:
        return f"{outcome.status}: {clean(outcome.error, 4 * chars)}"
    lines = [_count(outcome), " | ".join(clean(c, chars) for c in outcome.columns)]
    lines += [" | ".join(clean(cell, chars) for cell in row) for row in outcome.rows[:rows]]
    if outcome.row_count > rows and outcome.status is Status.OK:
        lines.append("...")
    return "\n".join(lines)


def bodies(outcome: Outcome, rows: int, cells: int, chars: int) -> list[str]:
    """The answer with fewer and fewer rows, the last one without any: at most `rows` of them, and `cells` cells."""
    if outcome.status not in _TABLES:
        return [render_outcome(outcome, 0, chars)]
    most = min(rows, cells // max(1, len(outcome.columns)))
    return [render_outcome(outcome, shown, chars) for shown in range(most, -1, -1)]


def shortest(outcome: Outcome) -> str:
    """Status or size alone, for the last answer of a conversation that has no room for a header or a message.

    >>> shortest(Outcome(Status.EMPTY, ("a", "b")))
    '0 rows\\n2 columns'
    """
    return f"{_count(outcome)}\n{len(outcome.columns)} columns" if outcome.status in _TABLES else str(outcome.status)


def reminder(turns_left: int, last_chance: str, solution: str, force_final: bool) -> str:
    """The last line of an observation: how many actions may follow. `solution` is the dialect's word.

    With `last_chance`, what ran out, the next action is the forced final one; with `force_final` it comes behind the
    turns, without it the last turn must be the solution.
    """
    if last_chance:
        return f"no {last_chance} left: give the {solution} now"
    if turns_left == 1 and not force_final:
        return f"give the {solution} now"
    return f"turns left: {turns_left}"


def clean(cell: object, chars: int) -> str:
    """One cell as a single line of at most `chars` characters, free of control tokens."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"<{len(cell)} bytes>"
    if isinstance(cell, float):
        return f"{cell:.10g}"
    return neutralize(str(cell), chars)


def _count(outcome: Outcome) -> str:
    """The true number of rows, in words."""
    count = f"more than {len(outcome.rows)}" if outcome.status is Status.TOO_LARGE else str(outcome.row_count)
    return f"{count} row{'' if count == '1' else 's'}"
