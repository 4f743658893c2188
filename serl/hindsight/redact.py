"""Hindsight that does not repeat the action: copying a name from it would raise the name's probability.

    none       the answer as it is
    messages   names, tokens and functions that an engine's message quotes become <name>
    action     also every other name of the action in a message, and the header of a result, which names what the
               action selected, becomes the number of columns

    error: no such column: city.nam      ─▶  error: no such column: <name>
    2 rows / city.name | count(*) / ...  ─▶  2 rows / 2 columns / ...          (`action`)

Cells are the database's own and stay. The formats are those of SQLite's sources; what DuckDB and PostgreSQL say beyond
them stands in quotes, in a call's name(...), or between the words of `_BETWEEN`.
"""

import re

from serl.sql.outcome import Outcome, Status
from serl.sql.statement import tokens

NAME = "<name>"

# What a message quotes, between what comes before and behind it. An observation may have cut the message short.
_BETWEEN = [re.compile(pattern) for pattern in (
    r'(near )".*?(?:"(: syntax error)$|$)',
    r"((?:no such [\w ]+?|ambiguous column name|unrecognized token|unknown function|misuse of [\w ]+?"
    r"|circular reference|duplicate WITH table name|recursive reference in a subquery|multiple [\w ]*references[\w ]*?"
    r"|hex literal too big): ).+?( - should .*$|$)",
    r"(misuse of (?:aliased aggregate|aggregate function|window function) ).+($)",
    r"(wrong number of arguments to function ).+($)",
    r"(cannot join using column ).+?( - column not present.*$|$)",
    r"(^table ).+?( has \d+ (?:values|columns) )",
    r"(unable to use function ).+?( in the requested context.*$|$)",
    r"(too many arguments on ).+?( - max.*$|$)",
    r"(not be used with non-aggregate ).+($)",
    r"(^).+?( may not be used as a window function| is not a function)",
    r"(^the function |^).+?( is not allowed)",  # the sandbox's own
    r"(\b(?:column|relation|function|table|schema|type|collation|with name) )\S.*?( does not exist)",
)]
_QUOTED = re.compile(r'"[^"]*(?:"|$)|`[^`]*(?:`|$)|\[[^\]]+(?:\]|$)|(?<!\w)\'[^\']*(?:\'|$)')
_CALL = re.compile(r"[\w.]+(?=\()")
_UNQUOTED = str.maketrans("", "", "\"'`[]")
_RESERVED = frozenset("""
    all and as asc between by case cast collate cross current desc distinct else end escape except exists false filter
    following from full glob group having in inner intersect is isnull join left like limit match natural not notnull
    null offset on or order outer over partition preceding range recursive regexp right row rows select set then true
    unbounded union using values when where window with
""".split())


def redacted(answer: str, outcome: Outcome, sql: str | None, mode: str) -> str:
    """`answer`, the text of `outcome` (`render_outcome`), as the mode wants it; `sql` is the action's."""
    if mode == "none":
        return answer
    if outcome.status in (Status.OK, Status.EMPTY, Status.TOO_LARGE):
        return _without_header(answer, len(outcome.columns)) if mode == "action" else answer
    status, _, message = answer.partition(": ")
    message = redact_message(message)
    if mode == "action":
        message = _without(message, names(sql or ""))
    return f"{status}: {message}"


def redact_message(message: str) -> str:
    """An engine's message without what it quotes.

    >>> redact_message('no such column: "a b" - should this be a string literal in single-quotes?')
    'no such column: <name> - should this be a string literal in single-quotes?'
    >>> redact_message('relation "town" does not exist'), redact_message("misuse of aggregate: AVG()")
    ('relation <name> does not exist', 'misuse of aggregate: <name>')
    """
    for pattern in _BETWEEN:
        message = pattern.sub(rf"\1{NAME}\2", message)
    return _CALL.sub(NAME, _QUOTED.sub(NAME, message))


def names(sql: str) -> set[str]:
    """What the query names: its words but for reserved ones and numbers, and what stands in its quotes.

    >>> sorted(names("SELECT T.[first name] FROM town AS T WHERE n = 'Lima' LIMIT 3"))
    ['Lima', 'T', 'first name', 'n', 'town']
    """
    found = set()
    for token in tokens(sql):
        if token.lastgroup == "quoted":
            found.add(token.group().translate(_UNQUOTED).strip())
        elif token.lastgroup == "word" and token.group().lower() not in _RESERVED:
            found.add(token.group())
    return {name for name in found if name and not name[0].isdigit()}


def _without(message: str, used: set[str]) -> str:
    if not used:
        return message
    longest_first = "|".join(re.escape(name) for name in sorted(used, key=len, reverse=True))
    return re.sub(rf"{NAME}|(?<!\w)(?:{longest_first})(?!\w)", NAME, message, flags=re.IGNORECASE)


def _without_header(answer: str, columns: int) -> str:
    count, _header, *rows = answer.split("\n")
    return "\n".join([count, f"{columns} column{'' if columns == 1 else 's'}", *rows])
