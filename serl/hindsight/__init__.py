"""Execution hindsight: what the teacher may see, the teacher, and the token weights made from its gap.

    teacher_only.py   types of what the student must never read
    facts.py          what is known of an action after the fact
    levels.py         what each level tells of it: shape.py (against gold), redact.py (without the action's own names)
    context.py        that text as tokens, within a budget, and the teacher's input
    branches.py       the turns of a batch with their hindsight; controls.py gives them another, to compare
    teacher.py        the weights that score them
    gaps.py           the evidence: normalize.py, maps.py, masks.py and schedule.py make weights.py of it
    parts/            what the parts of an action did, executed alone: tables, joins, conditions
    credit/           other sources of evidence, and whether evidence finds mistakes
    diagnostics/      what hindsight did to the tokens of a step, in numbers
"""
