"""What the parts of an action do: queries derived from it, whose answers say which clause keeps or makes which rows.

    part.py    a part, and what was found of it
    asks.py    SQL and its status ─▶ statements to run, each with the parts that it asks about
    select.py  one query ─▶ its parts, each with the counts that tell what it does
    build.py   the queries that are counted, from the action's own clauses
    texts.py   whether a column holds the text that it is compared with
    signs.py   what is remarkable of what was found
    lines.py   what was found ─▶ lines of hindsight, in the order of the clauses

The database's answer to the whole action cannot tell which clause is at fault; answers to its parts can. All of this is
pure: `serl.train.parts` runs the statements. Neither gold nor reward plays a part.
"""
