"""Plausible wrong versions of a query, and queries that look a value up: raw material of warm-start traces.

Each mutation changes one thing in the parsed tree, as models err: the case of a literal, a comparison, an
aggregate, a column of the same table or of a table that is not in the query, a forgotten condition, a column that does
not exist, a name that two tables have.
"""

from collections.abc import Callable, Iterator
from random import Random

import sqlglot
from sqlglot import exp

Schema = dict[str, list[str]]  # column names by table name

_FLIPPED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.GT, exp.LTE: exp.LT, exp.EQ: exp.NEQ, exp.NEQ: exp.EQ}
_AGGREGATES = {exp.Max: exp.Min, exp.Min: exp.Max, exp.Avg: exp.Sum, exp.Sum: exp.Avg, exp.Count: exp.Max}


def mutations(sql: str, schema: Schema, random: Random) -> Iterator[str]:
    """Wrong versions of `sql` in random order; none where it cannot be parsed."""
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return
    kinds: list[Callable] = [_recase, _compare, _aggregate, _column, _forget, _misspell, _stray, _unqualify]
    random.shuffle(kinds)
    for kind in kinds:
        changed = tree.copy()
        if kind(changed, schema, random):
            yield changed.sql(dialect="sqlite")


def probes(sql: str, schema: Schema, limit: int = 5) -> list[str]:
    """Queries that list stored values of the columns which `sql` compares with text."""
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return []
    found = []
    for comparison in tree.find_all(exp.EQ):
        column, literal = comparison.this, comparison.expression
        if isinstance(column, exp.Column) and isinstance(literal, exp.Literal) and literal.is_string:
            table = _table_of(column, tree, schema)
            if table is not None:
                name = exp.column(column.this.copy())
                query = exp.select(name).distinct().from_(exp.to_identifier(table, quoted=_needs_quotes(table)))
                found.append(query.limit(limit).sql(dialect="sqlite"))
    return list(dict.fromkeys(found))


def _recase(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    literals = [node for node in tree.find_all(exp.Literal) if node.is_string and node.this.swapcase() != node.this]
    if not literals:
        return False
    node = random.choice(literals)
    text = node.this
    node.replace(exp.Literal.string(text.lower() if text != text.lower() else text.upper()))
    return True


def _compare(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    nodes = [node for node in tree.find_all(*_FLIPPED) if not isinstance(node.expression, exp.Column)]
    return _swap_type(nodes, _FLIPPED, random)


def _aggregate(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    nodes = [node for node in tree.find_all(*_AGGREGATES)
             if isinstance(node.this, exp.Column)]
    return _swap_type(nodes, _AGGREGATES, random)


def _swap_type(nodes: list[exp.Expression], types: dict, random: Random) -> bool:
    if not nodes:
        return False
    node = random.choice(nodes)
    arguments = {key: value.copy() if isinstance(value, exp.Expression) else value
                 for key, value in node.args.items() if key in ("this", "expression")}
    node.replace(types[type(node)](**arguments))
    return True


def _column(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    """Another column of the same table."""
    columns = list(tree.find_all(exp.Column))
    random.shuffle(columns)
    for node in columns:
        table = _table_of(node, tree, schema)
        others = [name for name in schema.get(table, ()) if name.lower() != node.name.lower()] if table else []
        if others:
            name = random.choice(others)
            node.set("this", exp.to_identifier(name, quoted=_needs_quotes(name)))
            return True
    return False


def _forget(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    """Drop one condition of a conjunction, or the only one."""
    where = tree.find(exp.Where)
    if where is None:
        return False
    if isinstance(where.this, exp.And):
        kept = random.choice([where.this.this, where.this.expression])
        where.set("this", kept.copy())
    else:
        where.parent.set("where", None)
    return True


def _misspell(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    """A column name that does not exist: the engine answers with an error."""
    columns = list(tree.find_all(exp.Column))
    if not columns:
        return False
    node = random.choice(columns)
    name = f"{node.name}s" if not node.name.endswith("s") else node.name[:-1]
    node.set("this", exp.to_identifier(name, quoted=_needs_quotes(name)))
    return True


def _stray(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    """A column of a table that is not in the query."""
    used = {node.name for node in tree.find_all(exp.Table)}
    near = {name.lower() for table in used for name in schema.get(table, ())}
    far = [name for table, names in schema.items() if table not in used for name in names if name.lower() not in near]
    columns = list(tree.find_all(exp.Column))
    if not far or not columns:
        return False
    name = random.choice(far)
    random.choice(columns).set("this", exp.to_identifier(name, quoted=_needs_quotes(name)))
    return True


def _unqualify(tree: exp.Expression, schema: Schema, random: Random) -> bool:
    """A column without its table, where two tables of the query have one of that name."""
    tables = {node.name for node in tree.find_all(exp.Table)}
    columns = [node for node in tree.find_all(exp.Column) if node.table and sum(
        node.name.lower() in (name.lower() for name in schema.get(table, ())) for table in tables) > 1]
    if not columns:
        return False
    random.choice(columns).set("table", None)
    return True


def _table_of(column: exp.Column, tree: exp.Expression, schema: Schema) -> str | None:
    """Name of the table that a column belongs to, by its qualifier or as the only table that has it."""
    tables = {node.alias_or_name: node.name for node in tree.find_all(exp.Table)}
    if column.table:
        return tables.get(column.table)
    owners = {name for name in tables.values()
              if column.name.lower() in (other.lower() for other in schema.get(name, ()))}
    return owners.pop() if len(owners) == 1 else None


def _needs_quotes(name: str) -> bool:
    return not name.replace("_", "a").isalnum() or name[:1].isdigit() or name.upper() in _RESERVED


_RESERVED = {"GROUP", "ORDER", "TABLE", "SELECT", "FROM", "WHERE", "INDEX", "KEY", "VALUES", "TO", "IN", "AS", "ON"}
