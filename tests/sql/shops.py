"""The shop database and the limits that the tests of the sandbox share."""

import dataclasses
import sqlite3
from pathlib import Path

from serl.sql.limits import Limits

LIMITS = Limits(grace_s=0.2, max_rows=1000, max_bytes=1_000_000, max_cell_bytes=100_000, memory_mb=256)
HASTY = dataclasses.replace(LIMITS, timeout_s=0.5)


def make_shop(path: Path) -> None:
    """item(id, name, price) with three rows, an index and a view."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL);
        INSERT INTO item VALUES (1, 'pen', 1.5), (2, 'ink', NULL), (3, 'Ölfarbe', 12.25);
        CREATE INDEX item_name ON item(name);
        CREATE VIEW cheap AS SELECT name FROM item WHERE price < 10;
        """
    )
    connection.close()
