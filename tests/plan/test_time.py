"""Time of a step: operations by hand, given and measured rates."""

import json
from dataclasses import replace

import pytest
import yaml

from serl.config import Config
from serl.errors import InputError
from serl.plan.known import Gpu, gpu
from serl.plan.parameters import Counts
from serl.plan.setting import Asked, setting_of
from serl.plan.time import Rates, at_most, encoded, flops, measured_step, plan_step, sampling, sql_workers_needed

COUNTS = Counts(total=1100, trained=1100, embedding=100, head=0, layers=2, layer=500, tensor=100, width=10,
                vocabulary=10, heads=3, kv_heads=1, head_dim=4)
CARD = Gpu("made up", 10**9, flops=1e6, bandwidth=1e6)


def setting(**fields):
    base = {"prompt": 100, "response": 20, "sampled": 16, "group": 4, "questions": 3, "turns": 2, "teacher": "none",
            "gpu": CARD, "gpus": 2, "sampler": "hf", "rollout_gpus": 2, "sequences": 100, "hindsight": 5}
    return replace(setting_of(Config(), Asked(1, gpu("H100"))), **base | fields)


def test_tokens_and_pairs():
    assert encoded(setting(shared=True)) == (3 * 180, 3 * (5000 + 4 * (2000 + 200)))
    assert encoded(setting(shared=False)) == (3 * 4 * 120, 3 * 4 * 7200)


def test_operations_by_hand():
    tokens, pairs = encoded(setting())
    forward = 2 * 1000 * tokens + 4 * 2 * 3 * 4 * pairs
    head = 2 * 10 * 10 * 12 * 16
    assert flops(COUNTS, setting()) == {"update": 3 * forward + 4 * head, "teacher": 0.0, "reference": 0.0}
    assert flops(COUNTS, setting(checkpointing=True))["update"] == 4 * forward + 4 * head
    assert flops(COUNTS, setting(rank=2))["update"] == 2 * forward + 4 * head
    added = 12 * (2 * 5 + 16)
    live = flops(COUNTS, setting(teacher="live"))["teacher"]
    assert live == head + 2 * 1000 * added + 4 * 2 * 3 * 4 * added * 110
    assert flops(COUNTS, setting(teacher="periodic"))["teacher"] == live + forward
    assert flops(COUNTS, setting(reference=True))["reference"] == forward + head


def test_seconds_are_operations_by_what_the_gpus_reach():
    found = plan_step(COUNTS, setting(), Rates(mfu=0.25), 10**6)
    assert found.seconds["update"] == pytest.approx(flops(COUNTS, setting())["update"] / (2 * 1e6 * 0.25))
    assert found.total == pytest.approx(sum(found.seconds.values())) and set(found.seconds) == {"rollout", "update"}


def test_sampling_reads_weights_and_keys_once_a_token():
    # Two GPUs of six trajectories: a decoded token takes 4400 bytes of weights and 6 · 110 · 64 of keys and values.
    memory = (1100 * 4 + 6 * 110 * 2 * 2 * 1 * 4 * 4) / (1e6 * 0.5)
    read = 3 * 100 + 12 * 4
    first = (2 * 1000 * read + 4 * 2 * 3 * 4 * read * 55) / (2 * 1e6 * 0.3)
    assert sampling(COUNTS, setting(dtype="float32"), Rates()) == pytest.approx(16 * memory + first)


def test_vllm_decodes_what_it_has_room_for():
    # A token has 2 · 2 · 1 · 4 · 2 bytes = 32; a sequence 20 tokens, and a fourth of the prompt's 100.
    own = {"sampler": "colocated", "sampler_dtype": "bfloat16", "tensor_parallel": 2}
    assert at_most(COUNTS, setting(kv_cache=32 * 450, **own)) == 20
    assert at_most(COUNTS, setting(kv_cache=32 * 450, sequences=7, **own)) == 7
    assert at_most(COUNTS, setting(kv_cache=1, **own)) == 1 and at_most(COUNTS, setting()) == 100


def test_given_rates_are_taken():
    found = plan_step(COUNTS, setting(), Rates(sampled=10.0, updated=54.0), 10**6)
    assert found.seconds == {"rollout": 12 * 16 / 10, "update": 3 * 180 / 54} and "given" in found.source


def test_sql_is_waited_for_where_workers_are_few():
    found = plan_step(COUNTS, setting(questions=1000, turns=5), Rates(sampled=1e9), 2)
    assert found.seconds["waiting for SQL"] == pytest.approx(4000 * 5 / 2000, abs=0.01)
    assert sql_workers_needed(setting(questions=1000, turns=5), 4.0) == 5


def test_a_run_is_scaled_by_its_trajectories(tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"rollout": {"questions": 2, "group_size": 3}}))
    rows = [{"step": 0, "time/step": 90.0, "time/rollout": 90.0, "tokens/sampled": 1.0}]
    rows += [{"step": step, "time/step": 10.0, "time/rollout": 4.0, "time/update": 3.0, "tokens/sampled": 60.0}
             for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = measured_step(tmp_path, setting())
    assert found.seconds == {"rollout": 8.0, "update": 6.0, "other": 6.0} and found.sampled == 120
    with pytest.raises(InputError, match="--run .* two steps"):
        measured_step(tmp_path / "none", setting())
