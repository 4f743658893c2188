"""Several engines of one policy: requests are spread over them, and go to another when one dies.

Requests that share a prompt go to the same engine, which has it in its prefix cache. An engine that fails a request
is asked whether it is healthy; if not, or after the third failure in a row, it is left out until `revive`, and what it
was still working on is asked of the others. Between requests `watch` notices an engine that hangs or has gone.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

from serl.generate.vllm.endpoint import Endpoint, EndpointDown, EnginesGone

T = TypeVar("T")
FAILURES = 3  # in a row, until a healthy engine is left out


class Pool:
    """All methods run in one event loop."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = list(endpoints)
        self.why: dict[str, str] = {endpoint.name: "not started" for endpoint in endpoints}  # of those left out
        self._fallen: dict[str, asyncio.Event] = {}
        self._busy: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._routes: dict[Hashable, Endpoint] = {}

    @property
    def alive(self) -> list[Endpoint]:
        return [endpoint for endpoint in self.endpoints if endpoint.name not in self.why]

    async def ask(self, route: Hashable, work: Callable[[Endpoint], Awaitable[T]]) -> T:
        """What `work` makes of an engine, the same for the same `route` while it lives; EnginesGone if none does."""
        while True:
            endpoint = self._choose(route)
            self._busy[endpoint.name] += 1
            try:
                answer = await self._while_alive(endpoint, work(endpoint))
                self._failures[endpoint.name] = 0
                return answer
            except EndpointDown as error:
                await self._suspect(endpoint, error)
            finally:
                self._busy[endpoint.name] -= 1

    async def each(self, work: Callable[[Endpoint], Awaitable[T]]) -> dict[str, T]:
        """What `work` makes of every engine alive, by name; one that goes down on it is left out."""
        async def one(endpoint: Endpoint) -> tuple[str, T] | None:
            try:
                return endpoint.name, await self._while_alive(endpoint, work(endpoint))
            except EndpointDown as error:
                self._leave_out(endpoint, str(error))
                return None
        answers = dict(filter(None, await asyncio.gather(*map(one, self.alive))))
        if not answers:
            raise self._gone()
        return answers

    async def revive(self) -> None:
        """Start what is not running, or was left out; the engines that come up must be given the weights next."""
        async def one(endpoint: Endpoint) -> None:
            try:
                await endpoint.start()
            except EndpointDown as error:
                self.why[endpoint.name] = str(error)
                print(f"{endpoint.name} stays left out: {error}", file=sys.stderr)
                return
            del self.why[endpoint.name]
            self._fallen[endpoint.name] = asyncio.Event()
            self._failures[endpoint.name] = 0
        await asyncio.gather(*(one(endpoint) for endpoint in self.endpoints if endpoint.name in self.why))
        self._routes.clear()
        if not self.alive:
            raise self._gone()

    async def close(self) -> None:
        """Stop what was started; all of it, even if one cannot be stopped."""
        await asyncio.gather(*(endpoint.close() for endpoint in self.endpoints), return_exceptions=True)

    async def watch(self, every_s: float) -> None:
        """For ever: leave out an engine that is not healthy twice in a row."""
        doubtful: set[str] = set()
        while True:
            await asyncio.sleep(every_s)
            watched = self.alive
            states = await asyncio.gather(*(endpoint.healthy() for endpoint in watched))
            ill = {endpoint.name for endpoint, healthy in zip(watched, states) if not healthy}
            for endpoint in watched:
                if endpoint.name in ill & doubtful:
                    self._leave_out(endpoint, "does not answer to health checks")
            doubtful = ill

    def _choose(self, route: Hashable) -> Endpoint:
        alive = self.alive
        if not alive:
            raise self._gone()
        if self._routes.get(route) not in alive:
            routed = Counter(endpoint.name for endpoint in self._routes.values())
            self._routes[route] = min(alive, key=lambda endpoint: (self._busy[endpoint.name], routed[endpoint.name]))
        return self._routes[route]

    async def _while_alive(self, endpoint: Endpoint, answer: Awaitable[T]) -> T:
        """The answer, or EndpointDown as soon as the engine is left out, whoever found that it is down."""
        task, fallen = asyncio.ensure_future(answer), asyncio.ensure_future(self._fallen[endpoint.name].wait())
        try:
            await asyncio.wait({task, fallen}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise EndpointDown(self.why.get(endpoint.name, "it was left out"))
            return task.result()
        finally:
            task.cancel()
            fallen.cancel()

    async def _suspect(self, endpoint: Endpoint, error: EndpointDown) -> None:
        self._failures[endpoint.name] += 1
        if self._failures[endpoint.name] >= FAILURES or not await endpoint.healthy():
            self._leave_out(endpoint, str(error))

    def _leave_out(self, endpoint: Endpoint, why: str) -> None:
        if endpoint.name in self.why:
            return
        self.why[endpoint.name] = why
        self._fallen[endpoint.name].set()
        print(f"{endpoint.name} is left out: {why}; {len(self.alive)} of {len(self.endpoints)} engines go on",
              file=sys.stderr)

    def _gone(self) -> EnginesGone:
        reasons = "; ".join(f"{name}: {why}" for name, why in self.why.items())
        return EnginesGone(f"no vLLM engine is left ({reasons})")
