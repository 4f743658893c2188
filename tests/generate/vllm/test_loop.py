"""Work in the background: results as they come, failures, cancellation, an end that leaves nothing running."""

import asyncio
import threading

import pytest

from serl.generate.vllm.loop import Loop


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close(asyncio.sleep(0))


async def after(seconds: float, result):
    await asyncio.sleep(seconds)
    if isinstance(result, Exception):
        raise result
    return result


def test_results_come_in_the_order_of_their_ends(loop):
    loop.start("late", after(0.2, 1))
    loop.start("early", after(0.0, 2))
    assert loop.collect(block=True) == [("early", 2)]
    assert loop.pending == 1
    assert loop.collect(block=True) == [("late", 1)]
    assert loop.collect(block=True) == [] == loop.collect(block=False)


def test_what_is_raised_is_raised_where_results_are_collected(loop):
    loop.start("a", after(0.0, RuntimeError("boom")))
    with pytest.raises(RuntimeError, match="boom"):
        loop.collect(block=True)
    with pytest.raises(RuntimeError, match="bang"):
        loop.call(after(0.0, RuntimeError("bang")))


def test_a_key_that_was_cancelled_can_be_used_again_at_once(loop):
    loop.start("a", after(0.1, "old"))
    loop.cancel("a")
    loop.start("a", after(0.2, "new"))
    assert loop.collect(block=True) == [("a", "new")]
    loop.cancel("never there")


def test_the_end_stops_what_runs_does_the_last_work_and_may_come_twice():
    loop, ended = Loop(), []

    async def forever():
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("stopped")

    loop.start("a", forever())
    loop.background(forever())
    loop.call(asyncio.sleep(0.01))
    threads = threading.active_count()
    loop.close(after(0.0, None))
    loop.close(after(0.0, None))
    assert ended == ["stopped", "stopped"] and threading.active_count() == threads - 1
