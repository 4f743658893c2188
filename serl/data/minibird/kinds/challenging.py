"""Question kinds with two joins, or with joins, groups and arithmetic at once."""

from __future__ import annotations

from serl.data.minibird.kinds.kind import Kind

CHALLENGING = (
    Kind("join3_select", "c=show f=any@2", "SELECT {c} FROM {from} WHERE {f}", (
        "What are the {c.s} of {T}?",
        "List the {c} of all {T}.",
        "Show the {c.s} of {T}.",
        "Find the {c.s} of all {T}.",
    ), path="up up", weight=0.9),
    Kind("join3_owner", "c=label f=any@2", "SELECT DISTINCT {c} FROM {from} WHERE {f}", (
        "What are the different {c.s} of {T}?",
        "List the different {c.s} of all {T}.",
        "Show the distinct {c.s} of {T}.",
        "Find the distinct {c.s} of {T}.",
    ), path="down up", weight=0.9),
    Kind("join3_count", "f=filter g=any@2", "SELECT COUNT(*) FROM {from} WHERE {f} AND {g}", (
        "How many {T} are there?",
        "What is the number of {T}?",
        "Count the {T}.",
        "Give the number of {T}.",
    ), path="up up", weight=0.9),
    Kind("join3_aggregate", "m=measure a=aggregate f=any@2", "SELECT {a}({m}) FROM {from} WHERE {f}", (
        "What is the {a} {m} of {T}?",
        "Find the {a} {m} of all {T}.",
        "Give the {a} {m} of {T}.",
        "Calculate the {a} {m} of {T}.",
    ), path="up up", weight=0.9),
    Kind("busiest", "c=show f=filter@1",
         "SELECT {c} FROM {from} WHERE {f} GROUP BY {id0} ORDER BY COUNT(*) DESC LIMIT 1", (
             "What is the {c} of the {t} with the most {U}?",
             "Find the {c} of the {t} that has the most {U}.",
             "Give the {c} of the {t} with the highest number of {U}.",
             "Which {t} has the most {U}? Give the {c}.",
         ), path="down", weight=1.2),
    Kind("biggest_sum", "c=show m=sum@1 f=part@1",
         "SELECT {c} FROM {from} WHERE {f} GROUP BY {id0} ORDER BY SUM({m}) DESC LIMIT 1", (
             "What is the {c} of the {t} with the highest total {m} of {U}?",
             "Find the {c} of the {t} with the largest total {m} over all its {U}.",
             "Which {t} has the highest total {m} of {U}? Give the {c}.",
             "Give the {c} of the {t} whose total {m} of {U} is the highest.",
         ), path="down", weight=1.0),
    Kind("join_group", "g=group@1 m=measure a=aggregate f=part",
         "SELECT {g}, {a}({m}) FROM {from} WHERE {f} GROUP BY {g}", (
             "For each {u} {g}, what is the {a} {m} of {T.alone}?",
             "What is the {a} {m} of {T.alone} for each {g} of the {u}?",
             "Show each {u} {g} with the {a} {m} of {T.alone}.",
             "Give the {a} {m} of {T.alone} by {u} {g}.",
         ), path="up", weight=1.0),
    Kind("join_percentage", "x=part f=any@1",
         "SELECT CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*) FROM {from} WHERE {f}", (
             "What percentage of {T:f} are {T.alone:x}?",
             "Among {T:f}, what is the percentage of {T.alone:x}?",
             "Of all {T:f}, how many percent are {T.alone:x}?",
             "Calculate the percentage of {T.alone:x} among {T:f}.",
         ), path="up", weight=1.0,
         evidence="percentage = CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*)"),
    Kind("count_difference", "p=pair",
         "SELECT SUM(CASE WHEN {x} THEN 1 ELSE 0 END) - SUM(CASE WHEN {y} THEN 1 ELSE 0 END) FROM {from}", (
             "What is the difference between the number of {T:x} and the number of {T:y}?",
             "How many more {T:x} than {T:y} are there?",
             "Calculate the number of {T:x} minus the number of {T:y}.",
             "By how many do {T:x} outnumber {T:y}?",
         ), weight=0.8),
    Kind("average_difference", "m=measure p=pair",
         "SELECT AVG(CASE WHEN {x} THEN {m} END) - AVG(CASE WHEN {y} THEN {m} END) FROM {from}", (
             "What is the difference between the average {m} of {T:x} and that of {T:y}?",
             "By how much does the average {m} of {T:x} exceed that of {T:y}?",
             "Calculate the average {m} of {T:x} minus the average {m} of {T:y}.",
             "How much higher is the average {m} of {T:x} than that of {T:y}?",
         ), weight=0.9),
    Kind("ratio", "p=pair f=filter",
         "SELECT CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL) / SUM(CASE WHEN {y} THEN 1 ELSE 0 END)"
         " FROM {from} WHERE {f}", (
             "Among {T:f}, what is the ratio of {T:x} to {T:y}?",
             "For {T:f}, calculate the ratio of {T:x} to {T:y}.",
             "Of all {T:f}, how many {T:x} are there for each of the {T:y}?",
             "What is the ratio between {T:x} and {T:y} among {T:f}?",
         ), weight=0.7,
         evidence="ratio = CAST(SUM(CASE WHEN {x} THEN 1 ELSE 0 END) AS REAL)"
                  " / SUM(CASE WHEN {y} THEN 1 ELSE 0 END)"),
    Kind("without_filter", "c=label f=filter@1",
         "SELECT {c} FROM {t0} WHERE {id0} NOT IN (SELECT {fk0} FROM {t1} WHERE {f})", (
             "What are the {c.s} of {ts} that have no {U}?",
             "List the {c} of all {ts} without any {U}.",
             "Which {ts} have no {U}? Give the {c}.",
             "Find the {c.s} of {ts} that have no {U}.",
         ), path="down", weight=0.9),
    Kind("both", "c=label p=pair@1",
         "SELECT {c} FROM {from} WHERE {x} INTERSECT SELECT {c} FROM {from} WHERE {y}", (
             "What are the {c.s} of {ts} with both {U:x} and {U:y}?",
             "List the {c} of all {ts} that have both {U:x} and {U:y}.",
             "Which {ts} have {U:x} and also {U:y}? Give the {c}.",
             "Find the {c.s} of {ts} that have {U:x} as well as {U:y}.",
         ), path="down", weight=0.8),
    Kind("one_not_other", "c=label p=pair@1",
         "SELECT {c} FROM {from} WHERE {x} EXCEPT SELECT {c} FROM {from} WHERE {y}", (
             "What are the {c.s} of {ts} with {U:x} but without {U:y}?",
             "List the {c} of all {ts} that have {U:x} but no {U:y}.",
             "Which {ts} have {U:x} but no {U:y}? Give the {c}.",
             "Find the {c.s} of {ts} that have {U:x} but no {U:y}.",
         ), path="down", weight=0.7),
)
