"""What a config says about engines: rules, what an engine is started with, and a machine without vLLM."""

import importlib.util
import os

import pytest

from serl.config import Config, VLLMConfig, load_config
from serl.errors import InputError, WorkFailed
from serl.generate.vllm.build import Engines, make_engines
from serl.generate.vllm.client import ServerEndpoint
from serl.generate.vllm.launch import engine_arguments, environ, environment, server_command
from tests.generate.vllm.conftest import engines_of, small_model


@pytest.mark.parametrize("overrides, message", [
    ([("rollout.engine", "sglang")], "rollout.engine is 'sglang'; choose one of hf, vllm, vllm_server"),
    ([("rollout.engine", "vllm"), ("model.dtype", "bfloat16")], "rollout.vllm.tolerance is 0.001; in bfloat16.*0.2"),
    ([("rollout.vllm.dtype", "float16")], "rollout.vllm.dtype is 'float16'; choose one of None, float32, bfloat16"),
    ([("rollout.engine", "vllm"), ("rollout.vllm.urls", "[http://a:1]")], "urls plays no part in rollout.engine vllm;"),
    ([("rollout.engine", "vllm"), ("rollout.vllm.servers", "2")], "servers plays no part in rollout.engine vllm;"),
    ([("rollout.vllm.threads", "2")], "threads plays no part in rollout.engine hf;"),
    ([("rollout.engine", "vllm_server"), ("rollout.vllm.urls", "[http://a:1]"), ("rollout.vllm.arguments", "[--x]")],
     "arguments plays no part in rollout.engine vllm_server with the rollout.vllm.urls"),
    *(([("rollout.engine", "vllm_server"), ("rollout.vllm.urls", f"['{url}']")], "must begin with http")
      for url in ("a:1", "http://", "http://a:port", "ftp://a")),
    ([("rollout.engine", "vllm_server"), ("rollout.vllm.urls", "[http://a, http://a]")], "name each server once"),
    ([("rollout.vllm.tolerance", "0")], "rollout.vllm.tolerance is 0.0; it must be above 0"),
    ([("rollout.vllm.servers", "0")], "rollout.vllm.servers is 0; it must be at least 1"),
])
def test_options_that_say_nothing_are_refused(overrides, message):
    with pytest.raises(InputError, match=message):
        load_config(None, overrides)


def test_without_vllm_one_line_says_what_to_install_or_use(monkeypatch, tokenizer, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "vllm" else found(name, *rest))
    model = small_model(len(tokenizer), 0, tied=True)
    for engine in ("vllm", "vllm_server"):
        with pytest.raises(InputError, match=r"vLLM is not installed; pip install 'serl\[vllm\]'.*hf"):
            engines_of(model, tokenizer, tmp_path, engine)
    assert engines_of(model, tokenizer, tmp_path, "vllm_server", urls=("http://127.0.0.1:9",)) is not None, \
        "servers that run elsewhere need none here"
    assert make_engines(Config(), model, tokenizer, None) is None


def test_options_of_each_way_to_sample_are_taken_where_they_say_something():
    load_config(None, [("rollout.engine", "vllm"), ("rollout.vllm.threads", "2"), ("rollout.vllm.sleep", "true")])
    load_config(None, [("rollout.engine", "vllm_server"), ("rollout.vllm.servers", "2"), ("rollout.vllm.threads", "2")])
    load_config(None, [("rollout.engine", "vllm_server"), ("rollout.vllm.urls", "[http://a:1, 'http://[::1]:2/']"),
                       ("rollout.vllm.folder", "/shared"), ("rollout.vllm.request_timeout_s", "60")])


def test_a_folder_for_weights_that_is_not_there_is_an_error_before_anything_starts(tokenizer, tmp_path):
    with pytest.raises(InputError, match="rollout.vllm.folder .*nowhere: no such folder"):
        engines_of(small_model(len(tokenizer), 0, tied=True), tokenizer, tmp_path / "nowhere")


def test_an_engine_gets_the_length_and_the_log_probs_that_training_needs(tmp_path):
    arguments = engine_arguments(tmp_path, VLLMConfig(kv_cache_gib=0.5, arguments=("--seed", "3")), "float32", 1024,
                                 gpu=False)
    said = dict(zip(arguments, arguments[1:]))
    assert said["--max-model-len"] == "1024" and said["--kv-cache-memory-bytes"] == str(2**29)
    assert said["--logprobs-mode"] == "processed_logprobs" and said["--generation-config"] == "vllm"
    assert {"--enforce-eager", "--enable-prefix-caching"} <= set(arguments) and arguments[-2:] == ["--seed", "3"]
    assert "--enable-sleep-mode" not in engine_arguments(tmp_path, VLLMConfig(sleep=True), "float32", 64, gpu=False)
    on_gpu = engine_arguments(tmp_path, VLLMConfig(sleep=True), "bfloat16", 64, gpu=True)
    assert "--enable-sleep-mode" in on_gpu and "--enforce-eager" not in on_gpu
    assert "--no-enable-chunked-prefill" in arguments and "--no-enable-chunked-prefill" not in on_gpu
    command = server_command(arguments, 8123)
    assert command[3:5] == ["--model", str(tmp_path)]
    assert " ".join(command).find("--host 127.0.0.1 --port 8123") > 0, "nobody else on the network may ask it"


def test_the_environment_of_an_engine_is_its_own(monkeypatch):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    added = environment(VLLMConfig(threads=2), gpu=False)
    assert added["OMP_NUM_THREADS"] == "2" and added["TORCHDYNAMO_DISABLE"] == "1"
    assert "VLLM_LOGGING_LEVEL" not in added, "what the user has set stays"
    with environ(added):
        assert os.environ["VLLM_NO_USAGE_STATS"] == "1" and os.environ["OMP_NUM_THREADS"] == "2"
    assert "VLLM_NO_USAGE_STATS" not in os.environ and os.environ["OMP_NUM_THREADS"] == "7"


def test_weights_are_taken_over_when_they_changed_and_only_then():
    class Generator:
        loads, rested, closed = [], 0, 0

        def load(self, model, version):
            if model is None:
                raise WorkFailed("no")
            self.loads.append(version)

        def rest(self):
            self.rested += 1

        def close(self):
            self.closed += 1

    generator = Generator()
    engines = Engines(lambda: generator)
    engines.rest()
    assert engines.metrics == {} and generator.rested == 0, "nothing is started to be told to rest"
    assert engines.current(1) is engines.current(1) is generator and generator.loads == [0]
    engines.changed()
    engines.changed()
    with pytest.raises(WorkFailed):
        engines.current(None)
    engines.current(1)
    assert generator.loads == [0, 2], "weights that were not taken over are asked for again"
    engines.rest()
    engines.current(1)
    assert generator.loads == [0, 2, 2] and generator.rested == 1
    engines.close()
    assert generator.closed == 1


def test_a_servers_url_may_end_in_a_slash():
    assert ServerEndpoint("http://a:1/", 1.0).url == "http://a:1"
