"""Credit sources at work: what they need of models and groups, and how well each finds mistakes.

    evidence.py   evidence of the sources that need no teacher, for the samples of a step
    entropy.py    entropy of the student at every sampled token
    contexts.py   hindsight that a teacher may be given, with its controls
    measure.py    the table of `serl.hindsight.credit.mistakes`, from samples and models
    watch.py      the same on a schedule during training, with a warning
    replay.py     samples from a run's records
    report.py     the table of a run folder: `serl credit`
"""
