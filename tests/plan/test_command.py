"""`serl plan`: settings from configs and arguments, output, exit codes."""

import json

import pytest

from serl.cli import main
from serl.config import load_config
from serl.errors import InputError
from serl.plan.known import gpu, gpus
from serl.plan.setting import Asked, lengths, setting_of
from tests.models import tiny_model

SMALL = ["--prompt", "60", "--response", "6", "--rollout.questions", "2", "--rollout.group_size", "2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model(64).config.save_pretrained(folder)
    return str(folder)


def asked(**fields):
    return Asked(**{"gpus": 1, "gpu": gpu("H100")} | fields)


def test_lengths_are_the_longest_that_a_config_allows():
    config = load_config(None, [("agent.max_turns", "3"), ("agent.max_new_tokens", "100"),
                                ("agent.observation_tokens", "50"), ("grounding.budget", "1000"),
                                ("agent.prompt", "brief"), ("model.max_length", "5000")])
    assert lengths(config, asked()) == (1000 + 128 + 16, 3 * 100 + 2 * (50 + 16))
    short = load_config(None, [("model.max_length", "900"), ("agent.max_new_tokens", "100")])
    assert lengths(short, asked()) == (800, 100)
    assert lengths(short, asked(prompt=7, response=9)) == (7, 9)


def test_a_config_says_what_is_planned():
    config = load_config(None, [("model.dtype", "bfloat16"), ("rollout.engine", "vllm"), ("train.kl_beta", "0.1"),
                                ("rollout.vllm.arguments", '["--tensor-parallel-size", "2"]'),
                                ("rollout.vllm.tolerance", "0.2"), ("hindsight.teacher.mode", "ema"),
                                ("engine.kind", "deepspeed"), ("engine.zero", "2"), ("engine.offload", "optimizer")])
    found = setting_of(config, asked(gpus=4))
    assert (found.dtype, found.sampler, found.reference, found.teacher) == ("bfloat16", "colocated", True, "ema")
    assert (found.engine, found.zero, found.offload) == ("deepspeed", 2, "optimizer")
    assert (found.tensor_parallel, found.rollout_gpus) == (2, 4)
    assert setting_of(config, asked(rollout_gpus=3)).sampler == "elsewhere"
    without = load_config(None, [("hindsight.lambda0", "0")])
    assert setting_of(without, asked()).teacher == "none" and setting_of(without, asked()).engine == "torch"


@pytest.mark.parametrize("fields, message", [
    ({"gpus": 0}, "--gpus 0"), ({"prompt": 0}, "--prompt 0"), ({"rollout_gpus": 2}, "vllm_server")])
def test_what_does_not_go_together_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        setting_of(load_config(None), asked(**fields))


def test_a_plan_in_text_and_in_json(capsys, model):
    assert main(["plan", "--model", model, "--gpus", "2", *SMALL]) == 0
    text = capsys.readouterr().err
    assert "ZeRO 0*" in text and "ZeRO 3" in text and "fits 79.6" in text and "a step:" in text
    assert main(["plan", "--model", model, "--gpus", "2", *SMALL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["zero"]) == {"0", "1", "2", "3"} and found["fits"]
    chosen = found["zero"]["0"]
    assert chosen["peak"] == max(chosen["phases"].values()) and chosen["gpu"]["weights"] == 4 * found["parameters"][
        "total"]
    assert found["step"]["total"] == pytest.approx(sum(found["step"]["seconds"].values()))


@pytest.mark.slow
def test_what_does_not_fit_is_said_with_what_would(capsys, model):
    plain = ["plan", "--model", model, *SMALL, "--model.shared_prefix", "false"]
    assert main([*plain, "--json"]) == 0
    needed = json.loads(capsys.readouterr().out)["zero"]["0"]["peak"] / 2**30
    assert main([*plain, "--gpu-memory", str(needed - 1e-6)]) == 1
    text = capsys.readouterr().err
    assert "does not fit" in text and "  --model.dtype bfloat16: " in text


def test_wrong_arguments_are_one_line(capsys):
    for argv, message in ((["--gpu", "TPU"], "choose one of " + ", ".join(gpus())), (["--mfu", "0"], "--mfu 0.0"),
                          (["--model", "none.json"], "none.json")):
        assert main(["plan", *argv]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line
