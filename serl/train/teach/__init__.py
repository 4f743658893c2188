"""A teacher that is trained on hindsight, from a run's own rollouts: `serl teach`.

    lessons.py    what it learns of a group of trajectories: actions behind states with hindsight
    learning.py   loss, optimizer step, and the loop of `serl.train.sft` over them
    held_out.py   how well it does on questions that it did not learn from
    school.py     a run folder in, a model folder with a card (card.py) out

Nothing here sees gold: rewards and the group's own right solutions are all that is used, as in the student's training.
So the teacher may teach that student (`hindsight.teacher.path`).
"""
