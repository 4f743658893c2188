"""A vLLM server over HTTP: token ids in, token ids out; its routes for weights, workers and health.

Only numbers travel: the server is asked for `/inference/v1/generate`, which takes and gives token ids. Weights go
through a file, which the server must be able to read under the same path.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from serl.errors import InputError, WorkFailed
from serl.generate.vllm.endpoint import Completion, EndpointDown
from serl.generate.vllm.server import ServerProcess

HEALTH_TIMEOUT_S = 5.0


class ServerEndpoint:
    """The server at `url`: one of ours (`process`), or one that somebody else started and will stop."""

    def __init__(self, url: str, timeout_s: float, process: ServerProcess | None = None, sleeps: bool = False,
                 max_length: int = 0) -> None:
        """`max_length` is asked of a server that somebody else started: longer sequences may come."""
        self.name, self.url, self.timeout_s = f"vLLM server {url}", url.rstrip("/"), timeout_s
        self.process, self.sleeps, self.max_length = process, sleeps, max_length
        self._client = None
        self._resting = False

    async def start(self) -> None:
        import httpx

        if self._client is not None:
            await self._client.aclose()
        # No limit of connections: the server has the queue, and every request that waits for it is one.
        self._client = httpx.AsyncClient(base_url=self.url, timeout=httpx.Timeout(self.timeout_s, connect=10.0),
                                         limits=httpx.Limits(max_connections=None, max_keepalive_connections=64))
        if self.process is not None:
            await self.process.start(self.healthy)
        elif not await self.healthy():
            raise EndpointDown("does not answer to GET /health")
        else:
            await self._check_length()

    async def complete(self, ids: Sequence[int], sampling: dict[str, Any]) -> Completion:
        answer = await self._generate(ids, sampling)
        try:
            choice, = answer["choices"]
            tokens, content = choice["token_ids"], choice["logprobs"]["content"]
            logprobs = [float(entry["logprob"]) for entry in content]
            if not tokens or [entry["token_id"] for entry in content] != tokens:
                raise ValueError("tokens and log-probs do not belong together")
            if choice["finish_reason"] not in ("stop", "length"):
                raise ValueError(f"finish_reason {choice['finish_reason']}")
            versions = tuple(span["version"] for span in choice.get("weight_versions") or ())
        except (KeyError, TypeError, ValueError) as error:
            raise EndpointDown(f"malformed answer ({type(error).__name__}: {error})") from error
        return Completion(tokens, logprobs, versions)

    async def score(self, ids: Sequence[int]) -> list[float]:
        answer = await self._generate(ids, {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0})
        try:
            found = answer["prompt_logprobs"]
            if len(found) != len(ids):
                raise ValueError(f"{len(found)} log-probs for {len(ids)} tokens")
            return [float(entry[str(token)]["logprob"]) for token, entry in zip(ids[1:], found[1:])]
        except (KeyError, TypeError, ValueError) as error:
            raise EndpointDown(f"malformed answer ({type(error).__name__}: {error})") from error

    async def update(self, path: str, version: str) -> None:
        if self._resting:
            await self._post("/wake_up")
            self._resting = False
        await self._post("/start_weight_update")
        await self._post("/update_weights", {"update_info": {"path": path}})
        await self._post("/finish_weight_update", {"weight_version": version})
        if not (await self._post("/reset_prefix_cache")).get("success"):
            raise WorkFailed(f"{self.name} kept keys and values of the weights before: it has other requests running")

    async def fingerprints(self) -> dict[str, list[float]]:
        answer = await self._post("/collective_rpc", {"method": "weight_fingerprints"})
        try:
            return answer["results"][0]
        except (KeyError, IndexError, TypeError) as error:
            raise EndpointDown(f"malformed answer ({type(error).__name__}: {error})") from error

    async def healthy(self) -> bool:
        import httpx

        if self.process is not None and not self.process.running:
            return False
        try:
            return (await self._client.get("/health", timeout=HEALTH_TIMEOUT_S)).status_code == 200
        except (httpx.HTTPError, OSError):
            return False

    async def rest(self) -> None:
        if self.sleeps:
            await self._post("/sleep?level=1")
            self._resting = True

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        if self.process is not None:
            await asyncio.to_thread(self.process.stop)

    async def _generate(self, ids: Sequence[int], sampling: dict[str, Any]) -> dict[str, Any]:
        return await self._post("/inference/v1/generate", {"token_ids": list(ids), "sampling_params": sampling})

    async def _check_length(self) -> None:
        """InputError if the server takes shorter sequences than the run may have."""
        answer = await self._request("GET", "/v1/models")
        try:
            served = int(answer["data"][0]["max_model_len"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise EndpointDown(f"malformed answer at /v1/models ({type(error).__name__}: {error})") from error
        if served < self.max_length:
            raise InputError(f"config: model.max_length is {self.max_length}; {self.name} takes {served} tokens: start "
                             "it with a larger --max-model-len")

    async def _post(self, route: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self._request("POST", route, body)

    async def _request(self, method: str, route: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON that `route` answers. A refusal (4xx) is no accident that another server would mend."""
        import httpx

        try:
            response = await self._client.request(method, route, json=body)
        except (httpx.HTTPError, OSError) as error:
            raise EndpointDown(f"{type(error).__name__} at {route}" + (f": {error}" if str(error) else "")) from error
        if 400 <= response.status_code < 500:
            hint = ("; it must run with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out"
                    if response.status_code in (403, 404) else "")
            raise WorkFailed(f"{self.name} refused {route}: {response.status_code} {_line(response.text)}{hint}")
        if response.status_code != 200:
            raise EndpointDown(f"{response.status_code} at {route}: {_line(response.text)}")
        try:
            answer = response.json()
        except ValueError as error:
            raise EndpointDown(f"malformed answer at {route}: {_line(response.text)}") from error
        if not isinstance(answer, dict):
            raise EndpointDown(f"malformed answer at {route}: {_line(response.text)}")
        return answer


def _line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "(empty)"
    return line if len(line) <= 300 else line[:300] + "..."
