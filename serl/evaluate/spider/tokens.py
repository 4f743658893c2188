"""Tokens of a query as Spider's official parser sees them: lower-case words, symbols, and strings in double quotes.

Its tokenizer is one for English. So an operator is read only with spaces around it where it is made of `=`
(`age>=20` is not), `<>` is two operators and a back quote is no quote: queries that have these are outside the
subset. They are not read here either, because exact match is quoted, and compared, as the official script counts it
(of 5170 real predictions on Spider's dev set, 4 would match else).
"""

from __future__ import annotations

import re

_SYMBOLS = r"()\[\]{}<>!?;@#$%&*"
# A word may have strings glued to it; a comma before a digit is part of the word.
_TOKEN = re.compile(rf'(?:"[^"]*"|[^\s,"{_SYMBOLS}]|,(?=\d))+|[,{_SYMBOLS}]')
_BEFORE_EQUALS = ("!", "<", ">")


def tokenize(sql: str) -> list[str]:
    """The tokens of `sql`; strings keep their case and get double quotes whichever they had.

    ValueError for an odd number of quotes. A space inside an operator is no part of it: some gold queries have one.

    >>> tokenize("SELECT count(*) FROM singer WHERE Age > = 20 AND Country = 'US'")[7:]
    ['where', 'age', '>=', '20', 'and', 'country', '=', '"US"']
    """
    sql = sql.replace("'", '"')
    if sql.count('"') % 2:
        raise ValueError("an unclosed string")
    tokens: list[str] = []
    for match in _TOKEN.finditer(sql):
        text = match.group()
        if text == "=" and tokens and tokens[-1] in _BEFORE_EQUALS:
            tokens[-1] += "="
        else:
            tokens.append(text if is_string(text) else text.lower())
    return tokens


def is_string(token: str) -> bool:
    """Whether a token is one string and nothing else.

    >>> is_string('"a"'), is_string('name="a"'), is_string('"O""Hare"')
    (True, False, False)
    """
    return token.startswith('"') and token.find('"', 1) == len(token) - 1
