"""The `serl` reward ladder on real outcomes, what must never be scored, and users' own terms."""

from dataclasses import replace

import pytest

from serl.agent.trajectory import Trajectory
from serl.commands.options import differences
from serl.config import RewardConfig, load_config
from serl.config.bounds import CHOICES
from serl.errors import InputError
from serl.reward.facts import Facts
from serl.reward.panel import Panel, Reward
from serl.reward.presets import PRESETS
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import EXAMPLE, ROWS, act, environment, start

GOLD = Outcome(Status.OK, ("n",), ((2,), (5,)), 2)
GOLD_SQL = "SELECT n FROM t"


def ended(text: str, outcome: Outcome | None) -> Trajectory:
    """A one-action trajectory whose SQL was answered with `outcome`."""
    episode = start(environment(max_turns=1))
    act(episode, text)
    episode.observe(outcome)
    return episode.trajectory


def reward(trajectory: Trajectory, gold_sql: str = GOLD_SQL, gold: Outcome = GOLD, **options) -> Reward | None:
    panel = Panel.of(RewardConfig(**options), environment().token_bytes.of)
    return panel.score(trajectory, replace(EXAMPLE, gold_sql=gold_sql), gold)


def result(*rows: tuple, columns: tuple[str, ...] = ("n",)) -> Outcome:
    return Outcome(Status.OK if rows else Status.EMPTY, columns, rows, len(rows))


SOLUTION = "<solution>SELECT 1</solution>"


@pytest.mark.parametrize(("text", "outcome", "total"), [
    (SOLUTION, result((5,), (2,)), 1.0),  # gold does not order: rows may come in any order
    (SOLUTION, result((2,), (5,), (5,)), 0.0),  # a duplicate more
    (SOLUTION, result((2,)), 0.0),
    (SOLUTION, result((2, 1), (5, 1), columns=("n", "m")), 0.0),  # a column more
    (SOLUTION, result(), 0.0),
    (SOLUTION, Outcome(Status.ERROR, error="no such column: x"), -0.5),
    (SOLUTION, Outcome(Status.TIMEOUT), -0.5),
    (SOLUTION, Outcome(Status.DENIED), -0.5),
    (SOLUTION, Outcome(Status.TOO_LARGE), -0.5),
    ("<solution>-- nothing</solution>", Outcome(Status.NO_STATEMENT), -1.0),
    ("<sql>SELECT n FROM t</sql>", result((2,), (5,)), -1.0),  # right, but never given as the solution
    ("SELECT n FROM t", None, -1.0),
])
def test_the_ladder(text, outcome, total):
    scored = reward(ended(text, outcome))
    assert (scored.total, scored.terms, scored.correct) == (total, {"execution": total}, total == 1.0)


def test_order_counts_where_gold_orders():
    swapped = ended(SOLUTION, result((5,), (2,)))
    assert reward(swapped, "SELECT n FROM t ORDER BY n").total == 0.0


def test_a_failure_of_ours_is_no_reward_at_all_even_in_an_earlier_turn():
    lost = Outcome(Status.INFRASTRUCTURE, error="worker lost")
    assert reward(ended(SOLUTION, lost)) is None
    episode = start(environment())
    act(episode, "<sql>SELECT 1</sql>")
    episode.observe(lost)
    act(episode, SOLUTION)
    episode.observe(ROWS)
    assert reward(episode.trajectory) is None


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "none"])
def test_a_gold_that_failed_is_no_match_and_no_reward(preset):
    failed = Outcome(Status.ERROR, error="no such table: t")
    assert reward(ended(SOLUTION, failed), gold=failed, preset=preset) is None
    assert reward(ended(SOLUTION, result((2,))), gold=failed, preset=preset) is None


def rows(facts: Facts) -> float:
    """A term as users write them."""
    return float(len(facts.outcome.rows)) if facts.ran else 0.0


def test_a_term_of_ones_own_is_one_function_and_one_line_of_config(tmp_path):
    (tmp_path / "mine.yaml").write_text(f"reward: {{preset: serl, terms: {{execution: 2, {__name__}.rows: 0.25}}}}\n")
    options = load_config(tmp_path / "mine.yaml").reward
    scored = Panel.of(options, environment().token_bytes.of).score(ended(SOLUTION, result((5,), (2,))), EXAMPLE, GOLD)
    assert (scored.terms, scored.total) == ({"execution": 1.0, "rows": 2.0}, 2 * 1.0 + 0.25 * 2.0)
    assert load_config(None, [("reward", "serl"), ("reward.terms.execution", "2"),
                              (f"reward.terms.{__name__}.rows", "0.25")]).reward == options


def test_a_term_that_is_no_number_is_told_of():
    with pytest.raises(ValueError, match="reward term nothing is nan"):
        reward(ended(SOLUTION, result((2,))), terms={f"{__name__}.nothing": 1.0})


def nothing(facts: Facts) -> float:
    return float("nan")


mean = rows


@pytest.mark.parametrize(("terms", "said"), [
    ({"no_such_package.term": 1.0}, "which cannot be imported .No module named 'no_such_package'.; install it"),
    ({f"{__name__}.absent": 1.0}, "has no function absent"),
    ({f"{__name__}.GOLD_SQL": 1.0}, "has no function GOLD_SQL"),
    ({f"{__name__}.mean": 1.0}, "mean is the name of another metric; rename the function"),
    ({"serl.reward.terms.arctic.execution": 1.0}, "execution is the name of another term"),
])
def test_a_term_that_cannot_be_had_is_one_line(terms, said):
    with pytest.raises(InputError, match=said):
        Panel.of(RewardConfig(terms=terms), environment().token_bytes.of)


@pytest.mark.parametrize(("overrides", "said"), [
    ([("reward", "best")], "reward.preset is 'best'; choose one of serl, sql_r1"),
    ([("reward", "sql_r1"), ("reward.terms", "{fromat: 0}")], "has 'fromat'; preset sql_r1 has format, execution"),
    ([("reward.preset", "none")], "leaves preset none nothing to reward"),
    ([("reward.terms", "{execution: 0}")], "leaves preset serl nothing to reward"),
    ([("reward.terms", "{execution: much}")], "reward.terms.execution is 'much'; it must be float"),
    ([("reward.terms", "[execution]")], "reward.terms is"),
    ([("reward.length_max", "0")], "reward.length_max is 0; it must be at least 1"),
    ([("reward.length_unit", "word")], "choose one of token, char"),
    ([("reward", "sql_r1"), ("agent.dialect", "fence"), ("agent.max_turns", "1"),
      ("agent.prefill", '"<think>\\n\\n</think>\\n\\n"')], "closes the thinking"),
])
def test_options_of_rewards_that_say_nothing_are_refused(overrides, said):
    with pytest.raises(InputError, match=said):
        load_config(None, overrides)


def test_a_word_stands_for_the_preset_and_leaves_the_other_options(tmp_path):
    (tmp_path / "base.yaml").write_text("reward: sql_r1\n")
    (tmp_path / "child.yaml").write_text("extends: base.yaml\nreward: {length_max: 64}\n")
    (tmp_path / "grandchild.yaml").write_text("extends: child.yaml\nreward: arctic\n")
    assert load_config(tmp_path / "child.yaml").reward == RewardConfig("sql_r1", length_max=64)
    assert load_config(tmp_path / "grandchild.yaml").reward == RewardConfig("arctic", length_max=64)
    assert load_config(tmp_path / "child.yaml", [("reward", "serl")]).reward == RewardConfig("serl", length_max=64)


def test_a_run_with_other_terms_is_another_run():
    plain, weighed, moved = (load_config(None, [("reward.terms", terms)]) for terms in (
        "{}", "{execution: 2}", "{execution: 3}"))
    assert differences(plain, weighed) == ["reward.terms.execution: None, now 2.0"]
    assert differences(weighed, moved) == ["reward.terms.execution: 2.0, now 3.0"]
    assert differences(weighed, plain) == ["reward.terms.execution: 2.0, now None"]


def test_every_preset_can_be_chosen():
    assert CHOICES["reward.preset"] == tuple(PRESETS)
