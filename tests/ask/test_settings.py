"""Which config a checkpoint is asked with."""

from pathlib import Path

import pytest

from serl.ask.settings import config_beside, config_for
from serl.config import Config, load_config
from serl.errors import InputError

RUN = """
model: {path: embedded, max_length: 700, lora: {rank: 4}, gradient_checkpointing: true}
agent: {prompt: brief, max_turns: 5}
rollout: {engine: vllm_server, vllm: {urls: ["http://trainer:8000"]}}
hindsight: {level: gold_sql, allow_gold: true}
"""


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "config.yaml").write_text(RUN)
    for folder in ("model", "checkpoints/step_000008", "elsewhere/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checkpoints" / "best").symlink_to("step_000008")
    return tmp_path


def test_the_runs_config_is_found_from_its_checkpoints_and_its_model(run_dir, monkeypatch):
    for folder in ("model", "checkpoints/step_000008", "checkpoints/best"):
        assert config_beside(str(run_dir / folder)) == run_dir / "config.yaml"
    assert config_beside(str(run_dir / "elsewhere" / "deep")) is None
    monkeypatch.chdir(run_dir / "checkpoints")
    assert config_beside("best") == run_dir / "config.yaml"


def test_what_is_said_of_training_and_its_servers_plays_no_part(run_dir):
    config = config_for(str(run_dir / "checkpoints" / "best"), None, [("agent.max_turns", "4")])
    assert (config.model.max_length, config.agent.prompt, config.agent.max_turns) == (700, "brief", 4)
    assert config.model.path == str(run_dir / "checkpoints" / "best")
    default = Config()
    assert (config.rollout, config.hindsight, config.model.lora) == (default.rollout, default.hindsight,
                                                                     default.model.lora)
    assert not config.model.gradient_checkpointing


def test_a_file_that_is_named_comes_before_the_runs(run_dir, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("agent: {max_turns: 9}")
    assert config_for(str(run_dir / "model"), other, []).agent.max_turns == 9


def test_the_embedded_model_is_asked_as_it_was_trained():
    config = config_for("embedded", None, [])
    trained = load_config(Path(__file__).parents[2] / "experiments" / "recipes" / "warm_start.yaml")
    assert (config.agent, config.grounding) == (trained.agent, trained.grounding)
    assert config.model.max_length == trained.model.max_length and config.agent.prompt == "brief"


def test_without_a_config_the_defaults_are_said(tmp_path, capsys):
    config = config_for(str(tmp_path / "m"), None, [])
    assert config.agent == Config().agent and "the defaults of every option" in capsys.readouterr().err


def test_gold_that_there_is_not_is_refused(tmp_path):
    (tmp_path / "config.yaml").write_text("grounding: {mode: oracle, allow_gold: true}")
    with pytest.raises(InputError, match="needs gold"):
        config_for(str(tmp_path), None, [])
    given = [("grounding.mode", "hybrid"), ("grounding.allow_gold", "false")]
    assert config_for(str(tmp_path), None, given).grounding.mode == "hybrid"
