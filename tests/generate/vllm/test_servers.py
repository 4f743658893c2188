"""The client against servers of the tests' own: spreading, retries, death, malformed answers, weights of others."""

import threading
import time

import pytest

from serl.agent.dialects import DIALECTS
from serl.agent.token_bytes import TokenBytes
from serl.errors import InputError, WorkFailed
from serl.generate.interface import Request, generate
from serl.generate.stopping import StopRule
from serl.generate.vllm import generator as module
from serl.generate.vllm.client import ServerEndpoint
from serl.generate.vllm.endpoint import EnginesGone
from serl.generate.vllm.generator import VLLMGenerator, WeightsDiffer
from tests.generate.vllm.fake import FakeServer
from tests.models import tiny_model, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
RULE = StopRule(TokenBytes(TOKENIZER).of, frozenset({TOKENIZER.eos_token_id}), ("</sql>", "</solution>"),
                DIALECTS["xml"].is_complete)
PROMPTS = [TOKENIZER.encode(text, add_special_tokens=False) for text in ("SELECT name", "city(id", "how many")]
REQUESTS = [Request(PROMPTS[i % 3], (0, i), len(PROMPTS[i % 3])) for i in range(12)]


@pytest.fixture
def trainer():
    return tiny_model(len(TOKENIZER))


@pytest.fixture
def started(trainer, tmp_path, monkeypatch):
    """`started(2)`: two servers with other weights, and a generator over them that has given them the trainer's."""
    monkeypatch.setattr(module, "HEALTH_S", 0.1)
    opened = []

    def start(count: int, timeout_s: float = 20.0, load: bool = True, **options):
        servers = [FakeServer(tiny_model(len(TOKENIZER), seed=9), **options) for _ in range(count)]
        folder = tmp_path / f"weights_{len(opened)}"
        folder.mkdir()
        generator = VLLMGenerator([ServerEndpoint(server.url, timeout_s) for server in servers], RULE, 1, 64,
                                  len(TOKENIZER), "float32", 1e-3, folder)
        opened.append((generator, servers))
        if load:
            generator.load(trainer, 0)
        return generator, servers

    yield start
    for generator, servers in opened:
        generator.close()
        for server in servers:
            server.stop()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What one server, of which nothing is to be said, samples for `REQUESTS`, 4 tokens each."""
    server = FakeServer(tiny_model(len(TOKENIZER), seed=9))
    generator = VLLMGenerator([ServerEndpoint(server.url, 20.0)], RULE, 1, 64, len(TOKENIZER), "float32", 1e-3,
                              tmp_path_factory.mktemp("weights"))
    generator.load(tiny_model(len(TOKENIZER)), 0)
    yield generate(generator, REQUESTS, 4, 1.0)
    generator.close()
    server.stop()


def test_a_server_that_takes_shorter_sequences_is_refused_at_once(trainer, tmp_path):
    server = FakeServer(trainer, max_length=48)
    try:
        for length, fits in ((48, True), (49, False)):
            endpoint = ServerEndpoint(server.url, 20.0, max_length=length)
            generator = VLLMGenerator([endpoint], RULE, 1, length, len(TOKENIZER), "float32", 1e-3, tmp_path)
            if fits:
                generator._loop.call(generator._pool.revive())
            else:
                with pytest.raises(InputError, match="model.max_length is 49; .* takes 48 tokens.*--max-model-len"):
                    generator.load(trainer, 0)
            generator.close()
            tmp_path.mkdir(exist_ok=True)
    finally:
        server.stop()


def test_requests_are_spread_and_the_answers_do_not_depend_on_the_number_of_servers(started, expected):
    generator, servers = started(3)
    assert generate(generator, REQUESTS, 4, 1.0) == expected
    asked = [{tuple(request["token_ids"][:2]) for request in server.requests} for server in servers]
    assert all(asked) and sum(map(len, asked)) == 3, "each server has a prompt of its own, all of its group's requests"


def test_answers_come_one_by_one_in_the_order_in_which_they_finish(started):
    generator, (server,) = started(1)
    gate = threading.Event()
    server.behave = lambda number: gate.wait(20) and None if number == 0 else None
    generator.submit("slow", REQUESTS[0], 4, 1.0)
    while not server.requests:
        time.sleep(0.01)
    generator.submit("quick", REQUESTS[1], 4, 1.0)
    assert [key for key, _ in generator.poll()] == ["quick"]
    assert generator.poll(block=False) == []
    gate.set()
    assert [key for key, _ in generator.poll()] == ["slow"]
    assert generator.poll() == [], "nothing is pending: nothing to wait for"


def test_a_server_that_dies_in_a_request_is_noticed_at_once_and_its_requests_go_to_another(started, expected, capfd):
    generator, servers = started(2)
    servers[0].behave = lambda number: "die" if number >= 1 else None
    start = time.monotonic()
    assert generate(generator, REQUESTS, 4, 1.0) == expected
    assert time.monotonic() - start < 5
    assert "is left out" in capfd.readouterr().err
    assert generate(generator, REQUESTS, 4, 1.0) == expected, "and the rest goes on without it"


def test_a_server_that_hangs_is_noticed_by_its_health(started):
    generator, servers = started(2)
    for server in servers:
        server.behave = lambda number: time.sleep(30)
    generator.submit("a", REQUESTS[0], 4, 1.0)
    while not any(server.requests for server in servers):
        time.sleep(0.01)
    hanging, other = servers if servers[0].requests else servers[::-1]
    other.behave = lambda number: None
    hanging.health = 503
    start = time.monotonic()
    assert [key for key, _ in generator.poll()] == ["a"] and time.monotonic() - start < 5


def test_a_server_that_is_healthy_but_does_not_answer_in_time_is_left_out(started, expected, capfd):
    generator, servers = started(2, timeout_s=2.0)
    servers[0].behave = lambda number: time.sleep(30)
    start = time.monotonic()
    assert generate(generator, REQUESTS, 4, 1.0) == expected
    assert time.monotonic() - start < 20, "three timeouts"
    assert "is left out: ReadTimeout at /inference/v1/generate" in capfd.readouterr().err


@pytest.mark.parametrize("said", [(200, "not JSON"), (200, "[]"), (200, '{"choices": []}'), (500, "oops"),
                                  (200, '{"choices": [{"token_ids": [1], "logprobs": {"content": []}}]}'),
                                  (200, '{"choices": [{"token_ids": [1], "finish_reason": "abort", "logprobs": '
                                        '{"content": [{"token_id": 1, "logprob": -1}]}}]}')])
def test_a_server_whose_answers_are_no_answers_is_left_out_after_three(started, expected, said):
    generator, servers = started(2)
    servers[0].behave = lambda number: said
    assert generate(generator, REQUESTS, 4, 1.0) == expected
    assert 3 <= len(servers[0].requests) <= len(REQUESTS) + 3


def test_one_malformed_answer_does_not_cost_a_server(started, expected):
    generator, (server,) = started(1)
    server.behave = lambda number: (200, "?") if number == 2 else None
    assert generate(generator, REQUESTS, 4, 1.0) == expected


def test_without_any_server_the_run_stops_and_says_why_and_how_to_go_on(started):
    generator, servers = started(2)
    for server in servers:
        server.behave = lambda number: "die"
    with pytest.raises(EnginesGone, match=r"no vLLM engine is left .*127\.0\.0\.1.*127\.0\.0\.1"):
        generate(generator, REQUESTS, 4, 1.0)


def test_a_server_that_is_well_again_gets_the_weights_of_the_next_update(started, trainer):
    generator, servers = started(2)
    servers[0].health = 503
    deadline = time.monotonic() + 5
    while len(generator._pool.alive) == 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(generator._pool.alive) == 1
    generator.load(trainer, 1)
    assert servers[0].version != servers[1].version
    servers[0].health = 200
    generator.load(trainer, 2)
    assert servers[0].version == servers[1].version and generator.metrics["sync/engines"] == 2


def test_engines_rest_until_the_next_weights_where_they_can(trainer, tmp_path):
    servers = [FakeServer(tiny_model(len(TOKENIZER), seed=9)) for _ in range(2)]
    endpoints = [ServerEndpoint(server.url, 20.0, sleeps=number == 0) for number, server in enumerate(servers)]
    generator = VLLMGenerator(endpoints, RULE, 1, 64, len(TOKENIZER), "float32", 1e-3, tmp_path)
    generator.load(trainer, 0)
    generator.rest()
    with pytest.raises(RuntimeError, match="call load first"):
        generator.submit("a", REQUESTS[0], 4, 1.0)
    generator.load(trainer, 1)
    generator.load(trainer, 2)
    sleeps, wakes, updates = ([server.calls.count(route) for server in servers]
                              for route in ("/sleep?level=1", "/wake_up", "/update_weights"))
    assert (sleeps, wakes, updates) == ([1, 0], [1, 0], [3, 3])
    calls = servers[0].calls
    assert calls[calls.index("/sleep?level=1") + 1:][:2] == ["/wake_up", "/start_weight_update"]
    generator.close()
    for server in servers:
        server.stop()


def test_logs_of_servers_stay_only_if_one_failed(started):
    (well, _), (ill, (server,)) = started(1), started(1)
    for generator in (well, ill):
        (generator.folder / "server_0.log").write_text("words")
    server.behave = lambda number: "die"
    with pytest.raises(EnginesGone):
        generate(ill, REQUESTS[:1], 4, 1.0)
    for generator in (well, ill):
        generator.close()
    assert not well.folder.exists() and [path.name for path in ill.folder.iterdir()] == ["server_0.log"]


def test_a_refusal_stops_the_run_since_no_other_server_would_mend_it(started):
    generator, (server,) = started(1)
    server.behave = lambda number: (400, '{"error": "max_tokens is too large"}')
    with pytest.raises(WorkFailed, match="refused .*400.*max_tokens is too large"):
        generate(generator, REQUESTS[:1], 4, 1.0)


def test_samples_of_other_weights_are_not_taken(started, trainer):
    generator, servers = started(2)
    servers[0].version = "default"  # as after a restart behind our back
    assert len(generate(generator, REQUESTS, 4, 1.0)) == len(REQUESTS)
    for server in servers:
        server.version = "default"
    with pytest.raises(EnginesGone, match="samples with weights default instead of"):
        generate(generator, REQUESTS, 4, 1.0)


def test_lengths_keys_and_order_of_calls_are_checked(started, trainer):
    generator, (server,) = started(1)
    with pytest.raises(ValueError, match="60 tokens and up to 5 more do not fit the model's length of 64"):
        generator.submit("a", Request([1] * 60, None), 5, 1.0)
    server.behave = lambda number: time.sleep(30)
    generator.submit("a", REQUESTS[0], 4, 1.0)
    with pytest.raises(ValueError, match="'a' is pending"):
        generator.submit("a", REQUESTS[0], 4, 1.0)
    with pytest.raises(RuntimeError, match="1 requests are pending"):
        generator.load(trainer, 1)
    generator.cancel("a")
    assert generator.poll() == []
    unloaded, _ = started(1, load=False)
    with pytest.raises(RuntimeError, match="call load first"):
        unloaded.submit("a", REQUESTS[0], 4, 1.0)


def test_a_server_that_is_not_there_is_an_error_of_one_line(trainer, tmp_path):
    generator = VLLMGenerator([ServerEndpoint("http://127.0.0.1:9", 5.0)], RULE, 1, 64, len(TOKENIZER), "float32", 1e-3,
                              tmp_path)
    with pytest.raises(EnginesGone, match="http://127.0.0.1:9: does not answer to GET /health"):
        generator.load(trainer, 0)
    generator.close()


def test_an_update_that_misses_a_parameter_names_it(started, trainer):
    with pytest.raises(WeightsDiffer, match=r"1 of 25 parameters differ, the first is model\.layers\.1\.mlp\.up_proj"):
        started(1, misses="model.layers.1.mlp.up_proj.weight")


def test_log_probs_of_another_temperature_than_the_samples_are_refused(started):
    with pytest.raises(WorkFailed, match="--logprobs-mode processed_logprobs"):
        started(1, raw=True)
