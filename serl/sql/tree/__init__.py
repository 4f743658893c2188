"""The canonical tree of a query: what it says, without how it is written, and where each piece of it stands.

    parse.py       SQL text → sqlglot tree whose leaves know their tokens
    part.py        a node of our tree; places.py builds nodes with exact places
    names.py       which table a column belongs to; schema.py reads the columns of a database
    values.py      columns, literals, functions
    conditions.py  what is true or false
    sources.py     FROM, its joins, WITH
    queries.py     SELECT with its clauses, UNION and its kin: `Reader` and `readings`
    spell.py       a tree as one line of text, the same for trees that mean the same

The tree difference (`serl.hindsight.credit.difference`) matches two trees; `serl.sql.clauses` lists one by clauses.
"""
