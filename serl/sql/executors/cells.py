"""Values of richly typed engines as plain cells: None, int, float, str and bytes, which comparators know.

    boolean                      1 or 0, as SQLite has it
    decimal without a fraction   int (scale 0, as of a sum of integers)
    other decimal                float, which the comparators take with a tolerance
    date, time, timestamp        ISO text, "2020-01-31 08:00:00"; with a time zone, shifted to UTC: "...+00:00"
    interval                     text, "3 days, 2:00:00"
    UUID, and any other type     its text
    list, struct, map            JSON text of the plain cells within, blobs as hexadecimal text
"""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from typing import Any

_PLAIN = frozenset((type(None), int, float, str, bytes))


def plain_row(row: tuple) -> tuple:
    """A row of plain cells; a row that is plain already is returned as it is."""
    if _PLAIN.issuperset(map(type, row)):
        return row
    return tuple([cell if type(cell) in _PLAIN else plain_cell(cell) for cell in row])


def plain_cell(value: Any) -> None | int | float | str | bytes:
    """`value` by the rules at the head of this file.

    >>> plain_cell(Decimal("12.50")), plain_cell(Decimal("7")), plain_cell([True, Decimal("0.5")])
    (12.5, 7, '[1, 0.5]')
    """
    match value:
        case bool():
            return int(value)
        case Decimal():
            # Python refuses to write integers of thousands of digits; they become the float infinity.
            whole = value.is_finite() and value.as_tuple().exponent >= 0 and value.adjusted() < 308
            return int(value) if whole else float(value)
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC)
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case bytearray() | memoryview():
            return bytes(value)
        case list() | tuple() | dict():
            return json.dumps(_nested(value), ensure_ascii=False)
        case uuid.UUID() | datetime.timedelta():
            return str(value)
    return value if type(value) in _PLAIN else str(value)


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(plain_cell(key)): _nested(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_nested(item) for item in value]
    cell = plain_cell(value)
    return cell.hex() if isinstance(cell, bytes) else cell
