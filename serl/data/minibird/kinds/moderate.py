"""Question kinds with one join, a group or a subquery."""

from __future__ import annotations

from serl.data.minibird.kinds.kind import Kind

SHARE = "percentage = CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*)"

MODERATE = (
    Kind("join_select", "c=show f=any@1", "SELECT {c} FROM {from} WHERE {f}", (
        "What are the {c.s} of {T}?",
        "List the {c} of all {T}.",
        "Show the {c.s} of {T}.",
        "Find the {c.s} of all {T}.",
        "Give the {c} of every {T.one}.",
    ), path="up", weight=2.0),
    Kind("join_select_two", "c=show f=filter g=any@1", "SELECT {c} FROM {from} WHERE {f} AND {g}", (
        "What are the {c.s} of {T}?",
        "List the {c} of all {T}.",
        "Show the {c.s} of {T}.",
        "Find the {c.s} of all {T}.",
    ), path="up", weight=1.2),
    Kind("join_both", "c=show d=label@1 f=part", "SELECT {c}, {d} FROM {from} WHERE {f}", (
        "What are the {c} and the {u} {d} of {T.alone:f}?",
        "List the {c} of {T.alone:f} together with the {d} of the {u}.",
        "For all {T.alone:f}, show the {c} and the {d} of the {u}.",
        "Show the {c} and the {d} of the {u} for every {T.alone.one:f}.",
    ), path="up", weight=0.7),
    Kind("join_owner", "c=show f=any@1", "SELECT DISTINCT {c} FROM {from} WHERE {f}", (
        "What are the different {c.s} of {T}?",
        "List the different {c.s} of all {T}.",
        "Show the distinct {c.s} of {T}.",
        "Find the distinct {c.s} of {T}.",
        "Which different {c.s} do {T} have?",
    ), path="down", weight=1.4),
    Kind("join_count", "f=any@1", "SELECT COUNT(*) FROM {from} WHERE {f}", (
        "How many {T} are there?",
        "What is the number of {T}?",
        "Count the {T}.",
        "Give the number of {T}.",
        "How many {T} do we have?",
    ), path="up", weight=1.4),
    Kind("join_count_owner", "f=any@1", "SELECT COUNT(DISTINCT {id0}) FROM {from} WHERE {f}", (
        "How many different {T} are there?",
        "What is the number of different {T}?",
        "Count the different {T}.",
        "How many different {T} do we have?",
    ), path="down", weight=0.9),
    Kind("join_aggregate", "m=measure a=aggregate f=any@1", "SELECT {a}({m}) FROM {from} WHERE {f}", (
        "What is the {a} {m} of {T}?",
        "Find the {a} {m} of all {T}.",
        "Give the {a} {m} of {T}.",
        "For {T}, what is the {a} {m}?",
        "Calculate the {a} {m} of {T}.",
    ), path="up", weight=1.5),
    Kind("join_top", "d=show@1 o=order", "SELECT {d} FROM {from} ORDER BY {o} LIMIT 1", (
        "What is the {d} of the {u} of the {T.alone.one}?",
        "Find the {u} {d} of the {T.alone.one}.",
        "Give the {d} of the {u} that belongs to the {T.alone.one}.",
        "For the {T.alone.one}, what is the {d} of the {u}?",
    ), path="up", weight=0.8),
    Kind("group_aggregate", "g=group m=measure a=aggregate",
         "SELECT {g}, {a}({m}) FROM {from} GROUP BY {g}", (
             "What is the {a} {m} of the {ts} for each {g}?",
             "For each {g}, give the {a} {m} of the {ts}.",
             "Show every {g} with the {a} {m} of its {ts}.",
             "List each {g} and the {a} {m} of the {ts}.",
         ), weight=0.8),
    Kind("group_having", "g=group n=least_count",
         "SELECT {g} FROM {from} GROUP BY {g} HAVING COUNT(*) > {n}", (
             "Which {g.s} have more than {n} {ts}?",
             "List the {g.s} with more than {n} {ts}.",
             "Find every {g} that has more than {n} {ts}.",
             "Show the {g.s} that occur for more than {n} {ts}.",
         ), weight=0.7),
    Kind("commonest", "g=group f=filter",
         "SELECT {g} FROM {from} WHERE {f} GROUP BY {g} ORDER BY COUNT(*) DESC LIMIT 1", (
             "What is the most common {g} among {T}?",
             "Which {g} do most {T} have?",
             "Find the most frequent {g} of {T}.",
             "Give the {g} that has the most {T}.",
         ), weight=0.8),
    Kind("group_top", "g=group m=measure e=extreme f=part",
         "SELECT {g} FROM {from} WHERE {f} GROUP BY {g} ORDER BY AVG({m}) {e} LIMIT 1", (
             "Which {g} has the {e} average {m} of {T}?",
             "Find the {g} with the {e} average {m} among {T}.",
             "For which {g} is the average {m} of {T} the {e}?",
             "Among {T}, which {g} has the {e} average {m}?",
         ), weight=0.7),
    Kind("without", "c=label", "SELECT {c} FROM {t0} WHERE {id0} NOT IN (SELECT {fk0} FROM {t1})", (
        "What are the {c.s} of {ts} without any {us}?",
        "List the {c} of all {ts} that have no {us}.",
        "Which {ts} have no {us}? Give the {c}.",
        "Find the {c.s} of {ts} that have no {us}.",
    ), path="down", weight=0.5),
    Kind("count_without", "f=filter",
         "SELECT COUNT(*) FROM {t0} WHERE {f} AND {id0} NOT IN (SELECT {fk0} FROM {t1})", (
             "How many {T.alone} have no {us}?",
             "Count the {T.alone} that have no {us}.",
             "What is the number of {T.alone} that have no {us}?",
             "How many {T.alone} are there that have no {us}?",
         ), path="down", weight=0.6),
    Kind("above_average", "c=show m=measure beyond=side",
         "SELECT {c} FROM {from} WHERE {m} {beyond} (SELECT AVG({m}) FROM {from})", (
             "What are the {c.s} of {ts} whose {m} is {beyond} the average?",
             "List the {c} of all {ts} with {m.a} {beyond} average.",
             "Find the {c.s} of {ts} whose {m} is {beyond} the average {m} of all {ts}.",
             "Show the {c.s} of the {ts} that have {m.a} {beyond} average.",
         ), weight=0.7),
    Kind("count_above_average", "m=measure f=filter beyond=side",
         "SELECT COUNT(*) FROM {from} WHERE {f} AND {m} {beyond} (SELECT AVG({m}) FROM {from})", (
             "How many {T} have {m.a} {beyond} the average of all {ts}?",
             "Count the {T} that have {m.a} {beyond} the average of all {ts}.",
             "For how many {T} is the {m} {beyond} the average {m} of all {ts}?",
             "What is the number of {T} with {m.a} {beyond} the average of all {ts}?",
         ), weight=0.7),
    Kind("percentage", "x=part",
         "SELECT CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*) FROM {from}", (
             "What is the percentage of {T} among all {ts}?",
             "What percentage of all {ts} are {T}?",
             "Calculate the percentage of {T} among the {ts}.",
             "How many percent of the {ts} are {T}?",
         ), weight=0.8, evidence=SHARE),
    Kind("percentage_filter", "x=part f=filter",
         "SELECT CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*) FROM {from} WHERE {f}", (
             "Among {T:f}, what is the percentage of {T:x}?",
             "What percentage of {T:f} are {T:x}?",
             "Of all {T:f}, how many percent are {T:x}?",
             "Calculate the percentage of {T:x} among {T:f}.",
         ), weight=0.8, evidence=SHARE),
    Kind("by_year", "d=date f=part",
         "SELECT strftime('%Y', {d}), COUNT(*) FROM {from} WHERE {f} GROUP BY strftime('%Y', {d})", (
             "How many {T} were {d.verb} in each year?",
             "For each year, how many {T} were {d.verb}?",
             "Count the {T} {d.verb} in each year.",
             "Show the number of {T} {d.verb} per year.",
         ), weight=0.5),
    Kind("owner_count", "c=label n=least_count",
         "SELECT {c} FROM {from} GROUP BY {id0} HAVING COUNT(*) > {n}", (
             "Which {ts} have more than {n} {us}? Give the {c}.",
             "List the {c.s} of {ts} with more than {n} {us}.",
             "Find the {c} of every {t} that has more than {n} {us}.",
             "What are the {c.s} of the {ts} that have more than {n} {us}?",
         ), path="down", weight=0.7),
)
