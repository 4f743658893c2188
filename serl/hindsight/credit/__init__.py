"""Credit sources: signed evidence for each token of a trajectory, which bounded weights turn into credit.

    difference/   what is wrong in a predicted SQL, as spans of its text (sqlglot)
    tokens.py     spans of a text → tokens
    candidate.py  what a source may look at
    sources.py    oracle_diff, sibling_contrast, teacher_gap, surprisal, entropy, none
    auc.py        does a score find the wrong tokens?
    mistakes.py   that question for every source, from the records of a run

The package stands under `serl.hindsight` because its product is the evidence Δ that `weights.py` bounds, and
because nothing but training and analysis may import it: the tree difference knows gold SQL.
"""
