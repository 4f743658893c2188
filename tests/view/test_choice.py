"""Which trajectories of a long run a page holds."""

import pytest

from serl.errors import InputError
from serl.io import write_jsonl
from serl.view.choice import choose, groups_of


def write_steps(run_dir, steps, questions=4, samples=2):
    """Steps with `questions` groups of `samples` rows each."""
    for step in steps:
        rows = [{"step": step, "question_id": str(question), "db_id": "db", "sample": sample}
                for question in range(questions) for sample in range(samples)]
        write_jsonl(run_dir / "trajectories" / f"step_{step:06d}.jsonl", rows)


def shape(choice):
    """(step, question, samples) of each group."""
    return [(group[0]["step"], group[0]["question_id"], len(group)) for group in choice.groups()]


def test_a_short_run_is_shown_whole(tmp_path):
    write_steps(tmp_path, [0, 1])
    choice = choose(tmp_path, limit=16)
    assert shape(choice) == [(step, str(question), 2) for step in (0, 1) for question in range(4)]
    assert choice.recorded == 16


def test_of_a_long_run_whole_steps_are_shown_spread_over_it_with_both_ends(tmp_path):
    write_steps(tmp_path, range(101))
    choice = choose(tmp_path, limit=90)  # room for 11 steps of 8
    assert list(choice.files) == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert len(shape(choice)) == 11 * 4 and choice.recorded == 808


def test_of_large_steps_the_first_whole_groups_of_eight_steps_are_shown(tmp_path):
    write_steps(tmp_path, range(15), questions=6, samples=3)
    choice = choose(tmp_path, limit=40)  # 5 of each step's 18: two groups, since the second crosses the limit
    assert list(choice.files) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert shape(choice)[:3] == [(0, "0", 3), (0, "1", 3), (2, "0", 3)]


def test_steps_that_are_asked_for_are_shown_whole_and_once(tmp_path):
    write_steps(tmp_path, range(5))
    assert [each[0] for each in shape(choose(tmp_path, [3, 1, 3], limit=1))] == [1] * 4 + [3] * 4
    with pytest.raises(InputError, match=r"step_000009.jsonl: no such file; the run has recorded steps 0 to 4"):
        choose(tmp_path, [9])
    with pytest.raises(InputError, match="the run has recorded no step"):
        choose(tmp_path / "other", [0])


def test_a_question_that_a_step_drew_twice_has_two_groups():
    rows = [{"step": 1, "question_id": "a", "db_id": "d", "sample": sample} for sample in (0, 1, 0, 1)]
    assert [len(group) for group in groups_of(rows)] == [2, 2]
    assert groups_of([]) == []
