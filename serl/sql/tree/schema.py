"""Column names of a database by table: what a tree needs to tell whose column a name is."""

from functools import lru_cache
from pathlib import Path

from grounding.schema import Database
from serl.sql.tree.names import Schema


@lru_cache(maxsize=1024)
def schema_of(db_path: Path) -> Schema:
    """The schema of a SQLite file, read once. InputError for a file that cannot be read."""
    return {table.name: tuple(column.name for column in table.columns) for table in Database.read(db_path).tables}
