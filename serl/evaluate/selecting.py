"""What an evaluation selects with: its selectors, the facts that these look at, and what both cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from serl import model as models
from serl.config import Config
from serl.parallel import Ranks
from serl.select import REWARD, Pick, selectors
from serl.select.candidate import Candidate
from serl.select.pool import Pool
from serl.select.reward import FILE, LearntReward
from serl.task import Question, requests_of
from serl.workbench import Workbench


def reward_of(config: Config) -> LearntReward | None:
    """The learnt selector that a config asks for; None where it asks for none, InputError where it is not there."""
    if REWARD not in config.eval.select:
        return None
    if config.eval.selector is not None:
        return LearntReward.read(Path(config.eval.selector))
    folder = Path(config.model.path)
    return LearntReward.read((folder if folder.is_dir() else Path(models.resolve(config.model.path)[0])) / FILE)


class Selecting:
    """The selectors of one evaluation on a workbench; it notes what they cost."""

    def __init__(self, bench: Workbench) -> None:
        """InputError where a learnt selector is asked for and there is none."""
        self.bench = bench
        options = bench.config.eval
        found = selectors(options.select, reward_of(bench.config), options.confidence)
        self.picks: dict[str, Pick] = {name: self._timed(name, pick) for name, pick in found.items()}
        self.seconds: dict[str, float] = {}  # of adding facts
        self.tokens_read = 0  # by the verifier
        self._times: dict[tuple[str, int], list[float]] = {}  # of choices, by selector and number of candidates

    def add_facts(self, questions: Sequence[Question], pools: Sequence[Pool]) -> list[Pool]:
        """The pools with the facts in them that the selectors look at beside what sampling tells."""
        pools = list(pools)
        if REWARD in self.picks:
            with self._clock("uses"):
                pools = self._with_uses(questions, pools)
        if "verifier" in self.picks:
            with self._clock("verify"):
                pools = self._verified(questions, pools)
        return pools

    def _with_uses(self, questions: Sequence[Question], pools: Sequence[Pool]) -> list[Pool]:
        from serl.select.uses import uses

        requests = requests_of([question.example for question in questions], self.bench.config)
        texts = [[sample.sql for sample in pool.samples if sample.answered] for pool in pools]
        found = uses(self.bench.preparer.grounder, requests, texts)
        return [_changed(pool, [replace(sample, use=of.get(sample.sql)) for sample in pool.samples])
                for pool, of in zip(pools, found)]

    def _verified(self, questions: Sequence[Question], pools: Sequence[Pool]) -> list[Pool]:
        from serl.select.verify import Asked, verify

        config = self.bench.config
        asked = [(Asked(question.example.question, question.example.evidence, question.schema), sample)
                 for question, pool in zip(questions, pools) for sample in pool.samples]
        found = verify(self.bench.model, self.bench.env, asked, config.train.micro_tokens, config.model.shared_prefix)
        self.tokens_read += found.tokens
        chances = iter(found.chances)
        return [_changed(pool, [replace(sample, verified=next(chances)) for sample in pool.samples]) for pool in pools]

    def costs(self, questions: int, n: int, sampling: float, ranks: Ranks) -> dict[str, Any]:
        """Seconds a question: of sampling the greedy answer and all n, of facts, and of each selector's choice of n.

        And the tokens a question that the verifier read. Every rank calls it; they find facts at the same time.
        """
        seconds = {
            "sampling": sampling / questions,
            "facts": {name: ranks.most(own) / questions for name, own in self.seconds.items()},
            "choice": {name: total / count for name, (count, total) in self._choices(n).items()},
        }
        read = {"verifier_tokens": ranks.sum(self.tokens_read) / questions} if "verifier" in self.picks else {}
        return {"seconds": seconds, **read}

    def _choices(self, n: int) -> dict[str, tuple[int, float]]:
        """How often each selector chose from n candidates, and how long that took."""
        return {name: (len(times), sum(times)) for name in self.picks if (times := self._times.get((name, n)))}

    @contextmanager
    def _clock(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def _timed(self, name: str, pick: Pick) -> Pick:
        def timed(candidates: Sequence[Candidate]) -> int | None:
            start = time.perf_counter()
            index = pick(candidates)
            self._times.setdefault((name, len(candidates)), []).append(time.perf_counter() - start)
            return index

        return timed


def _changed(pool: Pool, samples: Sequence[Candidate]) -> Pool:
    return replace(pool, samples=tuple(samples))
