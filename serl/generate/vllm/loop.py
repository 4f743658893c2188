"""An event loop in a thread of its own: requests go on while the caller runs SQL or waits for something else."""

import asyncio
import queue
import threading
from collections.abc import Coroutine, Hashable
from concurrent.futures import Future
from typing import Any

MOMENT_S = 0.02


class Loop:
    """Named coroutines whose results are collected as they come, and calls that are waited for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="serl-vllm", daemon=True)
        self._thread.start()
        self._running: dict[Hashable, Future] = {}
        self._done: queue.SimpleQueue[tuple[Hashable, Future]] = queue.SimpleQueue()

    @property
    def pending(self) -> int:
        """Coroutines that were started, and whose results were not collected yet."""
        return len(self._running)

    def start(self, key: Hashable, work: Coroutine) -> None:
        """Run `work`; `collect` gives its result under `key`."""
        if key in self._running:
            work.close()
            raise ValueError(f"request {key!r} is pending already")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running[key] = future
        future.add_done_callback(lambda done: self._done.put((key, done)))

    def collect(self, block: bool) -> list[tuple[Hashable, Any]]:
        """Results since the last call; with `block`, one at least if any is pending. Raises what one raised.

        Without `block` it waits a moment for the first, so that who asks again and again does not take the processor.
        """
        out: list[tuple[Hashable, Any]] = []
        while self._running:
            try:
                key, future = self._done.get(not out, None if block else MOMENT_S)
            except queue.Empty:
                break
            if self._running.get(key) is future:  # not one that was cancelled, whose key may be in use again
                del self._running[key]
                out.append((key, future.result()))
        return out

    def cancel(self, key: Hashable) -> None:
        """Stop a pending coroutine and forget it."""
        future = self._running.pop(key, None)
        if future is not None:
            future.cancel()

    def call(self, work: Coroutine, timeout_s: float | None = None) -> Any:
        """Run `work` and wait for its result; TimeoutError after `timeout_s`."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def background(self, work: Coroutine) -> Future:
        """Run `work` for as long as the loop does; nobody waits for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Coroutine) -> None:
        """Stop everything that runs, then do `last`; of no effect if closed."""
        if self._loop.is_closed():
            last.close()
            return
        for key in list(self._running):
            self.cancel(key)
        try:
            self.call(_cancel_others())
            self.call(last)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
