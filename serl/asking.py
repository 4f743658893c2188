"""Questions as the jobs of a rollout: who waits for whom where the turns of dialogues run in order."""

from collections.abc import Sequence
from dataclasses import replace

from serl.agent.rollout import Job, Stream
from serl.data.turns import whole_dialogues
from serl.task import Question


def units_of(questions: Sequence[Question]) -> list[tuple[int, ...]]:
    """Places of the questions that run in order, dialogue by dialogue, and of the others, each by itself."""
    if not any(question.past is not None and question.past.in_order for question in questions):
        return [(place,) for place in range(len(questions))]
    return whole_dialogues([question.example for question in questions])


def jobs_of(questions: Sequence[Question], streams: Sequence[Sequence[Stream]]) -> list[Job]:
    """Jobs of all questions behind one another, those of a question in the order of its `streams`.

    Trajectory number k of a turn remembers trajectory number k of each turn before it that is asked with it. So all
    questions of a dialogue have equally many streams.
    """
    jobs: list[Job] = []
    for unit in units_of(questions):
        first: dict[str, int] = {}  # the first job of each turn so far
        for place in unit:
            question, begin = questions[place], len(jobs)
            for number, stream in enumerate(streams[place]):
                past = question.past
                if past is not None and past.in_order:
                    past = replace(past, answered_by={key: job + number for key, job in first.items()})
                jobs.append(Job(question.example, question.prompt_ids, stream, past))
            first[question.example.question_id] = begin
    return jobs
