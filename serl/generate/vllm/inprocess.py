"""A vLLM engine of this process. It computes in processes of its own, so that a crash there is not the trainer's."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from serl.errors import InputError, WorkFailed, first_line
from serl.generate.vllm.endpoint import Completion, EndpointDown
from serl.generate.vllm.launch import environ


class EngineEndpoint:
    """`arguments` and `added` are those of `serl.generate.vllm.launch`."""

    name = "the vLLM engine"

    def __init__(self, arguments: list[str], added: dict[str, str], sleeps: bool) -> None:
        self.arguments, self.added, self.sleeps = arguments, added, sleeps
        self.engine = None
        self._resting = False
        self._numbers = itertools.count()

    async def start(self) -> None:
        """Start the engine; one that died is not started again, since nobody knows what it took with it."""
        if self.engine is not None:
            raise EndpointDown("its processes have died")
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.async_llm import AsyncLLM

        with environ(self.added):
            parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
            try:
                arguments = parser.parse_args(self.arguments)
            except SystemExit:  # it would end the event loop's thread, and nobody would hear of it
                raise InputError("config: rollout.vllm.arguments: vLLM does not take them, it says why above") from None
            try:
                self.engine = AsyncLLM.from_engine_args(AsyncEngineArgs.from_cli_args(arguments))
            except Exception as error:
                raise WorkFailed(f"the vLLM engine did not start: {first_line(error)}; more is above") from error

    async def complete(self, ids: Sequence[int], sampling: dict[str, Any]) -> Completion:
        output = await self._final(ids, sampling)
        choice = output.outputs[0]
        logprobs = [entry[token].logprob for token, entry in zip(choice.token_ids, choice.logprobs)]
        versions = tuple(span.version for span in choice.weight_versions or ())
        return Completion(list(choice.token_ids), logprobs, versions)

    async def score(self, ids: Sequence[int]) -> list[float]:
        output = await self._final(ids, {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0,
                                         "detokenize": False})
        return [entry[token].logprob for token, entry in zip(ids[1:], output.prompt_logprobs[1:])]

    async def update(self, path: str, version: str) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        if self._resting:
            await self._ask(self.engine.wake_up())
            self._resting = False
        await self._ask(self.engine.start_weight_update())
        await self._ask(self.engine.update_weights(WeightTransferUpdateRequest(update_info={"path": path})))
        await self._ask(self.engine.finish_weight_update(version))
        if not await self._ask(self.engine.reset_prefix_cache()):
            raise WorkFailed("the vLLM engine kept keys and values of the weights before: requests were still running")

    async def fingerprints(self) -> dict[str, list[float]]:
        return (await self._ask(self.engine.collective_rpc("weight_fingerprints")))[0]

    async def healthy(self) -> bool:
        return self.engine is not None and not self.engine.errored

    async def rest(self) -> None:
        if self.sleeps:
            await self._ask(self.engine.sleep(level=1))
            self._resting = True

    async def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            await asyncio.to_thread(engine.shutdown)

    async def _final(self, ids: Sequence[int], sampling: dict[str, Any]):
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(**sampling, output_kind=RequestOutputKind.FINAL_ONLY)

        async def last():
            name = f"serl-{next(self._numbers)}"
            outputs = self.engine.generate(TokensPrompt(prompt_token_ids=list(ids)), params, name)
            return [output async for output in outputs][-1]

        return await self._ask(last())

    async def _ask(self, work):
        """What the engine answers; EndpointDown if it is dead, WorkFailed if it lives and cannot."""
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        try:
            return await work
        except (EngineDeadError, EngineGenerateError) as error:
            raise EndpointDown(first_line(error)) from error
        except Exception as error:
            if self.engine.errored:
                raise EndpointDown(first_line(error)) from error
            raise WorkFailed(f"the vLLM engine refused: {first_line(error)}") from error
