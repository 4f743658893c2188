"""Several ranks with the same servers: the first one gives them the weights, and every rank samples."""

import copy

import pytest
import torch

from serl.config import Config, ModelConfig, RolloutConfig, VLLMConfig
from serl.errors import InputError
from serl.generate.interface import generate
from serl.generate.vllm.build import make_engines
from serl.parallel import Ranks
from tests.generate.vllm.fake import FakeServer
from tests.generate.vllm.test_servers import REQUESTS, RULE, TOKENIZER
from tests.models import tiny_model
from tests.ranks import in_threads


def test_every_rank_samples_with_the_weights_that_the_first_one_has_given(tmp_path):
    start = tiny_model(len(TOKENIZER))
    servers = [FakeServer(tiny_model(len(TOKENIZER), seed=9)) for _ in range(2)]
    vllm = VLLMConfig(urls=tuple(server.url for server in servers), folder=str(tmp_path), request_timeout_s=60.0)
    config = Config(seed=1, model=ModelConfig(max_length=64), rollout=RolloutConfig(engine="vllm_server", vllm=vllm))

    def work(ranks) -> list:
        model, found = copy.deepcopy(start), []
        engines = make_engines(config, model, TOKENIZER, RULE, ranks)
        try:
            for _ in range(2):
                own = generate(engines.current(model), [REQUESTS[place] for place in ranks.share(4)], 4, 1.0)
                found.append(ranks.interleaved(own, 4))
                with torch.no_grad():
                    for weight in model.parameters():
                        weight += 0.01 * torch.ones_like(weight)
                engines.changed()
        finally:
            engines.close()
        return found

    ((before, after),) = in_threads(1, work)
    pushed = [server.calls.count("/update_weights") for server in servers]
    assert in_threads(3, work) == [[before, after]] * 3 and before != after
    assert [server.calls.count("/update_weights") for server in servers] == [2 * times for times in pushed] == [4, 4]
    for server in servers:
        server.stop()


def test_an_engine_in_a_process_is_not_for_several(tmp_path):
    config = Config(rollout=RolloutConfig(engine="vllm"))
    with pytest.raises(InputError, match="vllm_server"):
        make_engines(config, tiny_model(len(TOKENIZER)), TOKENIZER, RULE, Ranks(1, 2, 1))
