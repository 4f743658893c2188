"""Credit sources: signed evidence for each token of a trajectory, which bounded weights turn into credit.

    difference/   what is wrong in a predicted SQL, as spans of its text (sqlglot)
    tokens.py     spans of a text → tokens
    candidate.py  a trajectory's final SQL, and the tokens of its spans and differences
    sources.py    oracle_diff, sibling_contrast, surprisal, entropy, parts, parts_surprisal, none; the scale of each
    spread.py     the gap in deviations of what the empty frame does
    auc.py        does a score find the wrong tokens?
    mistakes.py   that question for every source: failed samples, rows, table
    gate.py       does the teacher's gap beat its controls?
    revealed.py   what executing the parts of failed SQL tells of mistakes by itself

`serl.train.credit` calls the models that these need. The package stands under `serl.hindsight` because its product is
the evidence Δ that `weights.py` bounds, and because nothing but training and analysis may import it: the tree
difference knows gold SQL.
"""
