"""SIGTERM and Ctrl-C: a run that is told to leave saves what it has and goes; started again, it goes on exactly.

A scheduler that wants its machine back sends SIGTERM and, some seconds later, SIGKILL. So what is under way is dropped
where it can be done again and its end may be far, and brought to its end where weights or files are changing:

    rollout, scoring      dropped: the state of before the step is saved
    update                ended: the state of after the step is saved
    evaluation on the way dropped: the step is done, and its metrics wait in the state for what is missing
    writing               ended
    before and after      dropped: there is nothing to save

With several ranks nothing is dropped within training: all leave together at the end of the step; nor with DeepSpeed,
whose passes gather and drop weights. With `rollout.overlap` the step is ended once the next rollout has begun.

A second signal leaves at once, as SIGKILL would: a run loses then what it did since its last checkpoint, and goes on as
exactly.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from serl.errors import Stopped
from serl.parallel import ALONE, Ranks

SIGNALS = (signal.SIGTERM, signal.SIGINT)
SAME_S = 1.0  # a terminal tells the whole process group, and a launcher passes it on: within so long it is one signal


class Preemption:
    """Whether this process was told to leave, and whether it may do so where it stands."""

    def __init__(self, ranks: Ranks = ALONE, drops: bool = True) -> None:
        """`drops`: whether what is under way in a run of one process may be dropped."""
        self.ranks, self._drops = ranks, drops and ranks.size == 1
        self._number: int | None = None
        self._when = 0.0
        self._may_drop = True

    @contextmanager
    def listening(self) -> Iterator["Preemption"]:
        """Within it, signals are for this to handle: for a main thread only, as Python has it."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        # One that is ignored stays so: a shell starts jobs in the background deaf to Ctrl-C.
        before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
        for number in before:
            signal.signal(number, self._receive)
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it a signal waits, but for parts that are `droppable`."""
        self._may_drop = False
        yield
        self._may_drop = True
        self._leave_if_told()

    @contextmanager
    def droppable(self) -> Iterator[None]:
        """A part of what is held in which a signal raises Stopped, at any line; up to `hold`."""
        try:
            if self._drops:
                self._may_drop = True
                self._leave_if_told()
            yield
        finally:
            self._may_drop = False

    def hold(self) -> None:
        """What begins here is brought to its end: a signal waits again."""
        self._may_drop = False
        if self._drops:
            self._leave_if_told()

    def told(self) -> bool:
        """Whether any rank was told to leave. A collective."""
        return self.ranks.most(float(self._number is not None)) > 0

    def leave(self) -> None:
        """Raise Stopped: this rank or another was told to."""
        raise Stopped(signal.SIGTERM if self._number is None else self._number)

    def _leave_if_told(self) -> None:
        if self._number is not None:  # a signal that came while it had to wait, or whose exception was lost
            self.leave()

    def _receive(self, number: int, frame: object) -> None:
        if self._number is not None:
            if time.monotonic() - self._when > SAME_S:
                os._exit(128 + number)
            return
        self._number, self._when = number, time.monotonic()
        if self._may_drop:
            self.leave()
        if self.ranks.leads:
            with suppress(OSError):  # not print(): the signal may have come in the middle of one
                os.write(2, f"\nserl: {signal.Signals(number).name}: leaving when this step is done and saved; once "
                            "more to leave at once\n".encode())
