"""SQL-R1's four terms (arXiv 2504.08600), which add up to a ladder.

    S_f  format       1 if every action keeps the form, else −1
    S_e  execution    2 if the solution runs, else −2; 0 where the form is bad
    S_r  result       3 if its result equals gold's, else −3; 0 where it did not run
    S_l  length       only on a match: 0.5 · min(1, (len_think + len_answer) / L_max) + len_sql / len_answer

    bad form −1 · runs not −1 · wrong 0 · correct 6 to 7.5

Tokens by default (`reward.length_unit`; the released code counts characters), L_max is `reward.length_max`.

Where the released code departs from the article, this does not follow it: a gold that fails is no match (nothing of
such a question is scored at all), a query of nothing but comments does not run, SQL is run as it was written, of
several statements none is run, DISTINCT counts, rows are ordered where gold's outermost query orders them, and floats
are equal within a relative 1e-6.
"""

from serl.reward.facts import Facts


def form(facts: Facts) -> float:
    """S_f."""
    return 1.0 if facts.well_formed else -1.0


def execution(facts: Facts) -> float:
    """S_e; an error, a time-out and a query that the sandbox denies are alike."""
    if not facts.well_formed:
        return 0.0
    return 2.0 if facts.ran else -2.0


def result(facts: Facts) -> float:
    """S_r."""
    if not facts.well_formed or not facts.ran:
        return 0.0
    return 3.0 if facts.correct else -3.0


def length(facts: Facts) -> float:
    """S_l: thinking pays up to L_max, and an answer should be its SQL rather than words around it."""
    if not facts.well_formed or not facts.correct:
        return 0.0
    of = facts.lengths(facts.options.length_unit)
    return 0.5 * min(1.0, (of.thinking + of.answer) / facts.options.length_max) + of.sql / of.answer
