"""What hindsight did to the tokens of a step, in numbers.

    lexemes.py    SQL text → keywords, identifiers, literals, operators; policy tokens → the one that they write
    shown.py      does a token's word stand in the hindsight text that the teacher read?
    table.py      all tokens of a batch as tensors, from samples or from the records of a run
    groups.py     Δ, ω and coverage by sign of A, outcome, turn, kind of token, ...; |Â| moved; bounds that bind
    controls.py   the same tokens' Δ under other hindsight, and the noise floor

A gap is evidence only if it beats its controls (DESIGN, section 4), so both stand side by side in the metrics.
"""
