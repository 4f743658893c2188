"""One last chance for a solution, when turns or length run out: `agent.force_final`."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent import prompts
from serl.agent.env import Environment
from serl.config import AgentConfig
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import EXAMPLE, ROWS, act, environment, start

QUERY, SOLUTION = "<sql>SELECT name FROM city</sql>", "<solution>SELECT 1</solution>"


def forced(**options) -> Environment:
    return environment(force_final=True, **options)


def play(episode, *texts: str, outcome: Outcome | None = ROWS) -> list[str | None]:
    """Each action answered; the observations."""
    for text in texts:
        assert not episode.done
        act(episode, text)
        episode.observe(outcome if text != "no action" else None)
    return [turn.observation_text for turn in episode.trajectory.turns]


def test_after_the_turns_comes_one_more_for_the_solution():
    episode = start(forced(max_turns=2))
    first, second, last = play(episode, QUERY, QUERY, SOLUTION)
    assert "turns left: 1\n" in first and "no turns left: give the solution now\n" in second and last is None
    assert (episode.trajectory.stop, episode.trajectory.final_sql) == ("final", "SELECT 1")


@pytest.mark.parametrize("last", [QUERY, "no action"])
def test_whoever_gives_none_then_has_run_out_of_turns(last):
    episode = start(forced(max_turns=1))
    play(episode, "no action", last)
    assert (episode.trajectory.stop, episode.trajectory.final_sql) == ("max_turns", None)
    assert len(episode.trajectory.turns) == 2


def test_a_solution_in_time_needs_no_more_turns():
    episode = start(forced(max_turns=3))
    play(episode, SOLUTION)
    assert episode.trajectory.stop == "final" and len(episode.trajectory.turns) == 1


def test_without_it_the_last_turn_itself_is_asked_for_the_solution():
    episode = start(environment(max_turns=2))
    first, second = play(episode, QUERY, QUERY)
    assert "give the solution now\n" in first and second is None
    assert episode.trajectory.stop == "max_turns"


def test_the_prompt_says_so():
    plain, more = (prompts.system_text(AgentConfig(force_final=force)) for force in (False, True))
    assert "You have 3 turns in all, and the last one must be the solution." in plain
    assert "You have 3 turns, and if none of them gives the solution, one more that must give it." in more


def test_when_the_length_runs_out_the_next_action_is_the_last():
    env = forced(max_turns=9)
    prompt = env.prompt_ids(EXAMPLE, "city(name text)")
    # One action of at most 32 tokens fits, and what is kept for the forced one; not a second one before that.
    short = replace(env, max_length=len(prompt) + env.config.max_new_tokens + env.reserve)
    assert len(prompt) == short.longest_prompt
    episode = short.start(prompt)
    first, _ = play(episode, QUERY, QUERY)
    assert "no room left: give the solution now\n" in first and "2 rows\nname | people" in first
    assert episode.trajectory.stop == "length"
    assert len(episode.trajectory) <= short.max_length


ROW = st.text(st.characters(blacklist_categories=("Cs",)), max_size=60)


@given(st.lists(st.lists(ROW, min_size=1, max_size=40), min_size=1, max_size=5), st.integers(0, 60), st.data())
def test_every_conversation_that_begins_gets_its_last_chance_and_fits(columns, spare, data):
    """Whatever the database answers, and however long the actions are within their cap."""
    env = forced(max_turns=4, observation_tokens=48, max_new_tokens=24)
    prompt = env.prompt_ids(EXAMPLE, "city(name text)")
    env = replace(env, max_length=len(prompt) + env.config.max_new_tokens + env.reserve + spare)
    episode = env.start(prompt)
    while not episode.done:
        assert len(episode.trajectory) + env.config.max_new_tokens <= env.max_length, "an action always fits"
        names = tuple(data.draw(st.sampled_from(columns)))
        ran = act(episode, data.draw(st.sampled_from([QUERY, "no action"]))) is not None
        episode.observe(data.draw(st.sampled_from([
            Outcome(Status.OK, names, (names,) * 7, 7), Outcome(Status.ERROR, error="".join(names)),
            Outcome(Status.TOO_LARGE, names, (names,), 100_000)])) if ran else None)
    trajectory = episode.trajectory
    assert trajectory.stop in ("max_turns", "length") and len(trajectory.turns) >= 2
    assert "left: give the solution now\n" in trajectory.turns[-2].observation_text
    assert all("left: give" not in turn.observation_text for turn in trajectory.turns[:-2])
