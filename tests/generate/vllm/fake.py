"""A server that speaks vLLM's routes over a tiny model of its own, and can be told to misbehave."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from safetensors.torch import load_file

from serl.generate.probe import trainer_logprobs
from serl.generate.vllm.fingerprint import of_weight


class FakeServer:
    """`misses`: a parameter that its updates leave as it was; `raw`: its log-probs are those before the temperature.

    `behave(number)` is asked before each answer to a request to sample: it may say "die", or a status and text to
    answer instead. With the same weights the same seed and tokens give the same sample.
    """

    def __init__(self, model, misses: str | None = None, raw: bool = False, max_length: int = 64) -> None:
        self.model, self.misses, self.raw, self.max_length = model, misses, raw, max_length
        self.version, self.path = "default", None
        self.calls: list[str] = []
        self.requests: list[dict] = []
        self.health = 200
        self.behave = lambda number: None  # of the number-th generate request
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.handle_error = lambda *_: None  # clients that give up are part of the tests
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, route: str, body: dict) -> dict:
        """What vLLM would answer."""
        with self._lock:
            return self._answer(route.partition("?")[0], body)

    def _answer(self, route: str, body: dict) -> dict:
        match route:
            case "/inference/v1/generate":
                return self._generate(body["token_ids"], body["sampling_params"])
            case "/update_weights":
                self.path = body["update_info"]["path"]
                weights = load_file(self.path)
                weights.pop(self.misses, None)
                self.model.load_state_dict(weights, strict=False)
            case "/finish_weight_update":
                self.version = body["weight_version"]
            case "/reset_prefix_cache":
                return {"success": True}
            case "/collective_rpc":
                weights = self.model.named_parameters(remove_duplicate=False)
                return {"results": [{name: [*of_weight(weight), "stored"] for name, weight in weights}]}
        return {}

    def _generate(self, ids: list[int], sampling: dict) -> dict:
        if "prompt_logprobs" in sampling:
            found = trainer_logprobs(self.model, [ids])[0]
            rows = [{str(token): {"logprob": value}} for token, value in zip(ids[1:], found)]
            return {"prompt_logprobs": [None, *rows], "choices": []}
        tokens, entries = list(ids), []
        generator = torch.Generator().manual_seed(sampling["seed"] or 0)
        while len(entries) < sampling["max_tokens"]:
            with torch.no_grad():
                logits = self.model(input_ids=torch.tensor([tokens])).logits[0, -1]
            scaled = logits / (sampling["temperature"] or 1.0)
            token = int(torch.multinomial(scaled.softmax(-1), 1, generator=generator))
            logits = logits if self.raw else scaled
            tokens.append(token)
            entries.append({"token_id": token, "logprob": float(logits.log_softmax(-1)[token])})
            if token in sampling["stop_token_ids"]:
                break
        count = len(entries)
        return {"choices": [{"token_ids": tokens[-count:], "logprobs": {"content": entries},
                             "finish_reason": "stop" if count < sampling["max_tokens"] else "length",
                             "weight_versions": [{"version": self.version, "start": 0, "end": count}]}]}

    def _handler(fake) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # noqa: N802
                served = {"data": [{"id": "policy", "max_model_len": fake.max_length}]}
                self._send(fake.health, json.dumps(served) if self.path == "/v1/models" else "")

            def do_POST(self) -> None:  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
                fake.calls.append(self.path)
                if "stop" in body.get("sampling_params", ()):  # a request for an action, not a probe
                    fake.requests.append(body)
                    said = fake.behave(len(fake.requests) - 1)
                    if said == "die":
                        self.close_connection = True
                        fake.health = 503
                        return
                    if said is not None:
                        self._send(*said)
                        return
                self._send(200, json.dumps(fake.answer(self.path, body)))

            def _send(self, status: int, text: str) -> None:
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_) -> None:
                """Say nothing."""

        return Handler
