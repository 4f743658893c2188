"""The database's answer as the policy sees it, within caps, and never cut inside its tags.

    <observation>
    3 rows
    name | total
    Ann | 2
    ...
    turns left: 1
    </observation>

The header and the true row count are always kept; rows are dropped until the text fits the token cap.
The same body is the `exec` hindsight of the teacher (`serl.hindsight.context`).
"""

from collections.abc import Callable

from grounding.safety import neutralize
from serl.sql.outcome import Outcome, Status

OPEN, CLOSE = "<observation>", "</observation>"


def render_outcome(outcome: Outcome, rows: int, chars: int) -> str:
    """Status, shape, header and first rows of a result, or the engine's message; one line each.

    `rows` caps the rows shown, `chars` the characters of a cell. Cells cannot forge tags or chat tokens.
    """
    if outcome.status not in (Status.OK, Status.EMPTY, Status.TOO_LARGE):
        return f"{outcome.status}: {clean(outcome.error, 4 * chars)}"
    count = f"more than {len(outcome.rows)}" if outcome.status is Status.TOO_LARGE else str(outcome.row_count)
    lines = [f"{count} row{'' if count == '1' else 's'}", " | ".join(clean(c, chars) for c in outcome.columns)]
    lines += [" | ".join(clean(cell, chars) for cell in row) for row in outcome.rows[:rows]]
    if outcome.row_count > rows and outcome.status is Status.OK:
        lines.append("...")
    return "\n".join(lines)


def render_observation(outcome: Outcome, turns_left: int, rows: int, chars: int, tokens: int,
                       count_tokens: Callable[[str], int]) -> str:
    """The observation's text, tags included, with as many rows as fit into `tokens`.

    The frame, the status or header and the reminder are kept even where they alone exceed the cap.
    """
    for shown in range(rows, -1, -1):
        text = wrap(render_outcome(outcome, shown, chars), turns_left)
        if shown == 0 or count_tokens(text) <= tokens:
            return text
    raise AssertionError("unreachable: the loop returns at shown == 0")


def wrap(body: str, turns_left: int) -> str:
    """Tags and reminder around an observation's body."""
    left = "give the solution now" if turns_left == 1 else f"turns left: {turns_left}"
    return f"{OPEN}\n{body}\n{left}\n{CLOSE}"


def clean(cell: object, chars: int) -> str:
    """One cell as a single line of at most `chars` characters, free of control tokens."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"<{len(cell)} bytes>"
    if isinstance(cell, float):
        return f"{cell:.10g}"
    return neutralize(str(cell), chars)
