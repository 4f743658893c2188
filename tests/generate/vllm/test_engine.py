"""Trainer, `hf` and vLLM on a CPU: the same log-probs of the same trajectories, before and after weight updates."""

import re
import time

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from serl.errors import InputError
from serl.generate.hf import HFGenerator
from serl.generate.interface import Request, generate
from serl.generate.vllm import generator as module
from serl.generate.vllm.endpoint import EnginesGone
from serl.generate.vllm.generator import WeightsDiffer
from serl.train.scoring import Tail, score
from tests.generate.vllm.conftest import engines_of, needs_vllm, small_model, stop_rule

pytestmark = [pytest.mark.engine, needs_vllm, pytest.mark.timeout(900)]

TEXTS = ("SELECT name", "how many cities are there in Peru?", "city(id int pk, name text)")


class Policy:
    """A model that is trained, and the engine that samples from it."""

    def __init__(self, tokenizer, tied: bool, folder) -> None:
        self.tokenizer, self.tied = tokenizer, tied
        self.model = small_model(len(tokenizer), 0, tied)
        self.engines = engines_of(self.model, tokenizer, folder)
        prompts = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        self.requests = [Request(prompts[i % 3], (0, i), len(prompts[i % 3])) for i in range(9)]
        self.requests.append(Request(prompts[0], None))

    def update(self) -> None:
        """Other weights in every parameter."""
        with torch.no_grad():
            for weight in self.model.parameters():
                weight += 0.02 * torch.randn_like(weight)
        self.engines.changed()

    @property
    def generator(self):
        return self.engines.current(self.model)

    def scored(self, ids: list[int], first: int, temperature: float) -> list[float]:
        return score(self.model, [Tail(ids, first, first - 1)], 512, temperature, share=False)[0].tolist()


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def policy(request, tokenizer, tmp_path_factory):
    policy = Policy(tokenizer, request.param, tmp_path_factory.mktemp("engine"))
    yield policy
    policy.engines.close()


def difference(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_log_probs_of_the_same_trajectories_agree_before_and_after_three_updates(policy):
    hf = HFGenerator(policy.model, stop_rule(policy.model, policy.tokenizer), 1, 32)
    seen = []
    for update in range(4):
        if update:
            policy.update()
        temperature = (1.0, 0.7)[update % 2]
        sampled = generate(policy.generator, policy.requests, 24, temperature)
        for request, generation in zip(policy.requests, sampled):
            ids, first = [*request.ids, *generation.ids], len(request.ids)
            at = 1.0 if request.stream is None else temperature
            assert difference(generation.logprobs, policy.scored(ids, first, at)) < 1e-4
        others = generate(hf, policy.requests, 24, temperature)
        trajectories = [[*request.ids, *generation.ids] for request, generation in zip(policy.requests, others)]
        for ids, request, generation, scored in zip(trajectories, policy.requests, others,
                                                    policy.generator.logprobs(trajectories)):
            first = len(request.ids)
            assert difference(scored, policy.scored(ids, 1, 1.0)) < 1e-4
            if temperature == 1.0:
                assert difference(scored[first - 1:], generation.logprobs) < 1e-4
        assert policy.generator.metrics["sync/difference"] < 1e-4
        seen.append([generation.ids for generation in sampled])
    assert all(one != other for one, other in zip(seen, seen[1:])), "the updates changed what is sampled"


def test_samples_are_a_function_of_seed_and_stream(policy):
    whole = generate(policy.generator, policy.requests, 24, 1.0)
    assert [g.ids for g in generate(policy.generator, policy.requests[3:5], 24, 1.0)] == [g.ids for g in whole[3:5]]
    assert len({tuple(g.ids) for g in whole[:9]}) == 9
    greedy = whole[-1]
    assert greedy.ids[0] == int(policy.model(torch.tensor([policy.requests[-1].ids])).logits[0, -1].argmax())


def test_prompts_that_do_not_fit_into_one_pass_together_are_sampled_from_as_alone(policy):
    words = policy.tokenizer.encode(" ".join(TEXTS * 16), add_special_tokens=False)
    requests = [Request(words[i:100 + i], (4, i), 100) for i in range(8)]
    whole = [g.ids for g in generate(policy.generator, requests, 8, 1.0)]
    assert whole == [generate(policy.generator, [request], 8, 1.0)[0].ids for request in requests]


def test_tokens_are_drawn_from_the_distribution_whose_log_probs_are_told(policy):
    ids = policy.requests[0].ids
    count, temperature = 2000, 0.5
    sampled = generate(policy.generator, [Request(ids, (1, i)) for i in range(count)], 1, temperature)
    with torch.no_grad():
        expected = (policy.model(torch.tensor([ids])).logits[0, -1] / temperature).softmax(-1)
    counts = torch.bincount(torch.tensor([g.ids[0] for g in sampled]), minlength=len(expected)) / count
    likely = expected.topk(5).indices
    deviation = (expected * (1 - expected) / count).sqrt()
    assert ((counts - expected).abs()[likely] < 5 * deviation[likely]).all()


def test_keys_and_values_of_the_weights_before_are_forgotten(policy):
    prompt = policy.tokenizer.encode(" ".join(TEXTS * 4), add_special_tokens=False)
    assert len(prompt) > 64, "more than a block of the prefix cache"
    request = Request(prompt, (2, 0), len(prompt))
    generate(policy.generator, [request] * 2, 8, 1.0)
    policy.update()
    after, = generate(policy.generator, [request], 8, 1.0)
    assert difference(after.logprobs, policy.scored([*prompt, *after.ids], len(prompt), 1.0)) < 1e-4


def test_an_update_that_is_skipped_is_caught(policy, monkeypatch):
    generator = policy.generator
    policy.update()

    async def skip(endpoint, path, version):
        await endpoint.engine.update_weight_version(version)

    with monkeypatch.context() as patched:
        patched.setattr(type(generator._pool.endpoints[0]), "update", skip)
        with pytest.raises(WeightsDiffer, match=r"parameters differ, the first is model\.embed_tokens\.weight"):
            policy.engines.current(policy.model)
        # The probe alone would do: without fingerprints, as of engines that are split over several GPUs.
        patched.setattr(type(generator._pool.endpoints[0]), "fingerprints", _none)
        with pytest.raises(WeightsDiffer, match="largest difference"):
            policy.engines.current(policy.model)
    assert policy.generator.metrics["sync/difference"] < 1e-4, "and the next one puts it right"


def test_a_skipped_update_of_a_tiny_learning_rate_is_caught_by_the_probe(policy, monkeypatch):
    generator = policy.generator
    generator._noise = 1e-6  # as in a run: the updates of the other tests are large
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 1e-6 * torch.randn_like(weight).sign()
    policy.engines.changed()

    async def skip(endpoint, path, version):
        await endpoint.engine.update_weight_version(version)

    with monkeypatch.context() as patched:
        patched.setattr(type(generator._pool.endpoints[0]), "update", skip)
        patched.setattr(type(generator._pool.endpoints[0]), "fingerprints", _none)
        with pytest.raises(WeightsDiffer) as caught:
            policy.engines.current(policy.model)
    assert float(re.search(r"largest difference (\S+),", str(caught.value))[1]) < 1e-3, "below the tolerance"


@pytest.mark.parametrize("missed", ["model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.up_proj.weight",
                                    "model.layers.1.input_layernorm.weight"])
def test_an_update_that_misses_one_parameter_names_it(policy, monkeypatch, missed):
    assert policy.generator.metrics, "the engine has the weights before"
    policy.update()
    whole = module.write_weights

    def without_it(*arguments):
        path, prints = whole(*arguments)
        weights = load_file(path)
        del weights[missed]
        save_file(weights, path)
        return path, prints

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_weights", without_it)
        with pytest.raises(WeightsDiffer, match=missed):
            policy.engines.current(policy.model)
    assert policy.generator.metrics["sync/difference"] < 1e-4


def test_arguments_that_vllm_does_not_take_are_an_error_of_one_line(policy, tmp_path):
    engines = engines_of(policy.model, policy.tokenizer, tmp_path, arguments=("--no-such-argument", "3"))
    with pytest.raises(InputError, match="rollout.vllm.arguments: vLLM does not take them"):
        engines.current(policy.model)
    engines.close()
    assert not list(tmp_path.iterdir())


def test_an_engine_whose_worker_dies_stops_the_run_in_seconds(policy):
    """The last test of this engine."""
    policy.generator.submit("long", Request(policy.requests[0].ids, (3, 0)), 200, 1.0)
    family = psutil.Process().children(recursive=True)
    worker, = (process for process in family if process.cmdline() and process.cmdline()[0].startswith("VLLM::Worker"))
    worker.kill()
    start = time.monotonic()
    with pytest.raises(EnginesGone, match="no vLLM engine is left .the vLLM engine: "):
        while True:
            policy.generator.poll()
            policy.generator.submit("again", policy.requests[0], 8, 1.0)
    assert time.monotonic() - start < 30


async def _none(endpoint) -> dict:
    return {}
