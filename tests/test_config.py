"""Configs: overrides, types, unknown keys; every recipe loads."""

from pathlib import Path

import pytest
import yaml

from serl.config import Config, load_config, to_dict
from serl.errors import InputError

RECIPES = sorted((Path(__file__).parents[1] / "experiments" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_load_and_survive_a_round_trip(path, tmp_path):
    config = load_config(path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_dict(config)))
    assert load_config(tmp_path / "config.yaml") == config


def test_overrides_are_typed():
    config = load_config(None, [("train.lr", "1e-5"), ("seed", "3"), ("tracking.tags", "[a, b]"),
                                ("sft.max_steps", "null"), ("eval.start", "false")])
    assert (config.train.lr, config.seed, config.tracking.tags) == (1e-5, 3, ("a", "b"))
    assert config.sft.max_steps is None and config.eval.start is False


def test_off_is_a_word_where_it_is_a_choice_and_no_string_elsewhere():
    """YAML 1.1 reads it as a false."""
    config = load_config(None, [("train.tis", "off"), ("agent.order", "off")])
    assert (config.train.tis, config.agent.order) == ("off", "off")
    with pytest.raises(InputError, match="train.loss is False; it must be str"):
        load_config(None, [("train.loss", "off")])


def test_a_recipe_can_extend_another(tmp_path):
    (tmp_path / "base.yaml").write_text("seed: 5\ntrain: {lr: 0.1, steps: 7}\n")
    (tmp_path / "child.yaml").write_text("extends: base.yaml\ntrain: {lr: 0.2}\n")
    config = load_config(tmp_path / "child.yaml")
    assert (config.seed, config.train.lr, config.train.steps) == (5, 0.2, 7)


@pytest.mark.parametrize(("override", "message"), [
    (("train.learning_rate", "1"), "unknown key train.learning_rate"),
    (("nope", "1"), "unknown key nope"),
    (("train.lr", "fast"), "train.lr is 'fast'; it must be float"),
    (("train.steps", "1.5"), "train.steps is 1.5; it must be int"),
    (("seed.x", "1"), "seed"),
    (("train", "3"), "train is a section"),
    (("data.format", "csv"), "choose one of bird, spider"),
    (("hindsight.lambda0", "1.5"), "between 0.0 and 1.0"),
    (("hindsight.eps_low", "1.0"), r"must be in \[0, 1\)"),
    (("rollout.group_size", "1"), "at least 2"),
    (("rollout.temperature", "0"), "above 0"),
    (("train.lr", ".nan"), "train.lr is nan; it must be float"),
    (("seed", "-1"), "seed is -1; it must be at least 0"),
    (("data.max_eval", "0"), "data.max_eval is 0; it must be at least 1"),
    (("hindsight.diagnose_trajectories", "0"), "diagnose_trajectories is 0; it must be at least 1"),
])
def test_wrong_options_are_named(override, message):
    with pytest.raises(InputError, match=message):
        load_config(None, [override])


def test_missing_and_broken_files_are_one_clear_line(tmp_path):
    with pytest.raises(InputError, match="cannot read this config"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1,\nb: 2")
    with pytest.raises(InputError, match="not valid YAML") as error:
        load_config(tmp_path / "bad.yaml")
    assert "\n" not in str(error.value)


def test_defaults_are_the_papers():
    config = Config()
    train = config.train
    assert (config.rollout.group_size, train.lr, train.clip_eps, train.kl_beta) == (8, 1e-6, 0.2, 0)
    hindsight = config.hindsight
    assert (hindsight.lambda0, hindsight.eps_low, hindsight.eps_high, hindsight.decay_updates, hindsight.budget,
            hindsight.teacher.sync_every) == (0.5, 0.2, 0.2, 50, 256, 10)


def test_the_recipe_of_sql_r1_is_the_articles():
    config = load_config(RECIPES[0].with_name("sql_r1.yaml"))
    train, rollout, agent = config.train, config.rollout, config.agent
    assert (train.lr, train.warmup_steps, train.lr_decay_steps, train.grad_clip) == (3e-7, 0, None, 1.0)
    assert (train.loss, train.reduction, train.clip_eps, train.updates_per_batch) == ("grpo", "token_mean", 0.2, 1)
    assert train.kl_beta == 0.001
    assert train.steps * rollout.questions == 10 * 5000
    assert (rollout.questions, rollout.group_size, rollout.temperature) == (8, 8, 1.1)
    assert (config.model.max_length - agent.max_new_tokens, agent.max_new_tokens) == (4096, 2048)
    assert (agent.dialect, agent.max_turns, agent.prefill, config.sql.timeout_s) == ("fence", 1, "<think>\n", 30)
    assert (config.reward.preset, config.reward.terms, config.reward.length_max) == ("sql_r1", {}, 2048)
    assert (config.eval.n, config.eval.temperature, config.hindsight.source) == (8, 0.8, "none")


def test_the_recipes_of_mtsql_r1_are_the_articles():
    published, combined = (load_config(RECIPES[0].with_name(f"{name}.yaml")) for name in ("mtsql_r1", "mtsql_serl"))
    train, rollout, agent = published.train, published.rollout, published.agent
    assert (train.lr, train.kl_beta, rollout.questions, rollout.group_size) == (1e-6, 0, 256, 5)
    assert (published.model.max_length, agent.max_turns, agent.prior) == (4000 + 8000, 4 + 1, "gold")
    assert (agent.dialect, agent.tools) == ("hermes", ("exec_sql", "memory_retrieve"))
    assert (published.reward.preset, published.reward.verify_by, published.reward.verify_empty) == (
        "mtsql_r1", "status", 0.1)
    assert (train.credit, published.hindsight.source) == ("trajectory", "none")
    usual, own = Config().hindsight, combined.hindsight
    assert (own.source, own.lambda0, own.eps_low, own.eps_high, own.decay_updates, own.teacher) == (
        usual.source, usual.lambda0, usual.eps_low, usual.eps_high, usual.decay_updates, usual.teacher)
    assert combined.train.credit == "step" and combined.reward == published.reward


def test_recipes_may_name_environment_variables_with_a_default(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").write_text("data: {root: '${SERL_TEST_ROOT:-../data}/spider'}\n")
    monkeypatch.delenv("SERL_TEST_ROOT", raising=False)
    assert load_config(tmp_path / "a.yaml").data.root == "../data/spider"
    monkeypatch.setenv("SERL_TEST_ROOT", "/mine")
    assert load_config(tmp_path / "a.yaml").data.root == "/mine/spider"


@pytest.mark.parametrize(("overrides", "said"), [
    ({"mode": "oracle"}, "set grounding.allow_gold to true if that is meant"),
    ({"allow_gold": "true"}, "of no use unless grounding.mode is oracle"),
    ({"mode": "oracle", "allow_gold": "true", "links": "reasoning+values"}, "plays no part in grounding.mode oracle"),
    ({"mode": "gold"}, "choose one of hybrid, full, oracle"),
    ({"links": "reasoning"}, "choose one of values, reasoning"),
    ({"chat_url": "http://a/v1", "chat_model": "m"}, "chat_url is of no use unless grounding.links is reasoning"),
    ({"chat_budget": "9"}, "chat_budget is of no use unless"),
    ({"links": "reasoning+values", "chat_url": "http://a/v1"}, "go together"),
    ({"links": "reasoning+values", "chat_model": "m"}, "go together"),
    ({"links": "reasoning+values", "chat_key": "KEY"}, "chat_key is of no use where the policy is asked"),
    ({"links": "reasoning+values", "chat_url": "http://a", "chat_model": "m", "chat_timeout_s": "0"}, "above 0"),
])
def test_grounding_sees_gold_only_by_opt_in_and_no_setting_is_idle(overrides, said):
    with pytest.raises(InputError, match=said):
        load_config(None, [(f"grounding.{name}", value) for name, value in overrides.items()])


def test_ways_to_link_that_go_together():
    for overrides in ({"mode": "oracle", "allow_gold": "true"}, {"links": "reasoning+values", "chat_budget": "9"},
                      {"links": "reasoning+values", "chat_url": "http://a/v1", "chat_model": "m", "chat_key": "KEY"}):
        config = load_config(None, [(f"grounding.{name}", value) for name, value in overrides.items()])
        assert config.grounding.asks_policy == ("chat_budget" in overrides)
