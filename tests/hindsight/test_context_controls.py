"""Controls: the empty frame, another question's hindsight, the verdict turned round."""

from dataclasses import replace

from serl.hindsight.branches import branches
from serl.hindsight.context import empty_hindsight, make_hindsight
from serl.hindsight.controls import CONTROLS, controls
from serl.hindsight.facts import Facts, Known
from serl.hindsight.levels import ContextOptions
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import act, encode, environment, start
from tests.hindsight.test_context import OPTIONS, played, text

VERDICTS = ContextOptions("exec+verdict", budget=200, rows=3, chars=24)
QUESTIONS = ["a", "a", "b", "b", "b", "c"]
FACTS = [Facts(Outcome(Status.OK, ("n",), ((number,),), 1), f"SELECT {number}", final=number % 2 == 0,
               correct=number > 2) for number in range(6)]


def test_lists_align_and_the_same_seed_gives_the_same_controls():
    made = controls(QUESTIONS, FACTS, VERDICTS, encode, 0)
    assert tuple(made) == CONTROLS and all(len(each) == len(FACTS) for each in made.values())
    assert made == controls(QUESTIONS, FACTS, VERDICTS, encode, 0)
    assert made["shuffled"] != controls(QUESTIONS, FACTS, VERDICTS, encode, 1)["shuffled"]


def test_the_empty_control_is_the_frame():
    assert controls(QUESTIONS, FACTS, OPTIONS, encode, 0)["empty"] == [empty_hindsight(OPTIONS, encode)] * 6


def test_a_shuffled_hindsight_is_that_of_the_same_kind_of_turn_of_another_question():
    own = [make_hindsight(each, VERDICTS, encode) for each in FACTS]
    seen = set()
    for seed in range(30):
        for place, hindsight in enumerate(controls(QUESTIONS, FACTS, VERDICTS, encode, seed)["shuffled"]):
            source = own.index(hindsight)
            seen.add((place, source))
            assert QUESTIONS[source] != QUESTIONS[place] and FACTS[source].final == FACTS[place].final
    assert seen == {(0, 2), (0, 4), (1, 3), (1, 5), (2, 0), (3, 1), (3, 5), (4, 0), (5, 1), (5, 3)}


def test_another_kind_of_turn_is_better_than_none_and_none_better_than_the_own_question():
    facts = [replace(FACTS[0], final=True), replace(FACTS[1], final=False), Facts(None)]
    own = [make_hindsight(each, OPTIONS, encode) for each in facts]
    made = controls(["a", "b", "c"], facts, OPTIONS, encode, 0)
    assert made["shuffled"] == [own[1], own[0], None]
    assert [each is None for each in made["empty"]] == [False, False, True]
    assert controls(["a", "a", "a"], facts, OPTIONS, encode, 0)["shuffled"] == [None] * 3
    assert controls(["a", "b", "c"], [facts[0], Facts(None), Facts(None)], OPTIONS, encode, 0)["shuffled"][0] is None


def test_only_a_told_verdict_can_be_flipped():
    flipped = controls(QUESTIONS, FACTS, VERDICTS, encode, 0)["flipped"]
    assert [each is not None for each in flipped] == [True, False, True, False, True, False]
    assert text(flipped[0]).endswith("expected result: yes\n</hindsight>")
    assert text(flipped[4]).endswith("expected result: no\n</hindsight>")
    assert text(flipped[0]).replace("yes", "no") == text(make_hindsight(FACTS[0], VERDICTS, encode))
    unjudged = [replace(each, correct=None) for each in FACTS]
    assert controls(QUESTIONS, unjudged, VERDICTS, encode, 0)["flipped"] == [None] * 6
    assert controls(QUESTIONS, FACTS, OPTIONS, encode, 0)["flipped"] == [None] * 6


def test_every_turn_with_something_to_tell_is_a_branch_and_one_without_room_is_counted():
    episode = start(environment())
    act(episode, "no action")
    episode.observe(None)
    broken = start(environment())
    act(broken, "<solution>SELECT 1</solution>")
    broken.observe(Outcome(Status.INFRASTRUCTURE, error="lost"))
    batch = [(3, played(), Known("q")), (5, episode.trajectory, Known("r")), (6, broken.trajectory, Known("s"))]
    made, skipped = branches(batch, OPTIONS, encode, 512)
    assert [(each.index, each.number) for each in made] == [(3, 0), (3, 1)] and skipped == 0
    assert [each.hindsight for each in made] == [make_hindsight(Facts(each.turn.outcome), OPTIONS, encode)
                                                 for each in made]
    longest = max(each.turn.action[1] + len(each.hindsight.ids) for each in made)
    assert branches(batch, OPTIONS, encode, longest)[1] == 0
    assert branches(batch, OPTIONS, encode, longest - 1)[1] == 1
    assert branches(batch, replace(OPTIONS, budget=5), encode, 512) == ([], 2)
