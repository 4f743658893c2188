"""Made-up trajectories are as long as they are said to be, and branch where a teacher's would."""

from serl.plan.made_up import FRAME, branches, trajectories


def test_a_group_shares_its_prompt_and_nothing_else():
    tails = trajectories(prompt=20, response=6, sampled=4, group=3, groups=2, vocabulary=10**6)
    assert [len(tail.ids) for tail in tails] == [26] * 6 and {tail.shared for tail in tails} == {19}
    assert len({tail.prompt for tail in tails}) == 2 and len({tuple(tail.own[1:]) for tail in tails}) == 6
    assert all(tail.targets == [22, 23, 24, 25] for tail in tails)


def test_a_branch_has_hindsight_before_the_frame_of_each_turn():
    (tail,) = trajectories(prompt=20, response=12, sampled=8, group=1, groups=1, vocabulary=10**6, taught=True)
    first, second = branches(tail, turns=2, hindsight=3, vocabulary=10**6)
    assert tail.shared == first.shared == second.shared == 20 - FRAME
    for branch, state in ((first, 20), (second, 26)):
        ids = list(branch.ids)
        assert ids[:state - FRAME] == tail.ids[:state - FRAME] and len(ids) == state + 3 + 4
        assert ids[state - FRAME + 3:] == tail.ids[state - FRAME: state + 4] and len(branch.targets) == 4
