"""What a teacher learns from one question's trajectories, where some are right and some are wrong.

    s_n, a_n, r_n     state, final action and verdict of trajectory n;  c_n its hindsight, ∅ the empty frame
    b_n               the right final action whose SQL differs least from that of a wrong a_n (ties by chance)

    kind        behind          to be likelier           to be less likely
    corrected   s_n + c_n       b_n                                                     a wrong a_n
    kept        s_n + c_n       a_n                                                     a right a_n
    own         s_n + ∅         a_n                                                     some of either
    contrast    s_n + c_n       what a_n and b_n share   where a_n differs from b_n      a wrong a_n

`corrected` and `kept` say what should have been written at s_n, now that c_n came back. The actions of `own` are the
policy's own sample, right and wrong as they came, so that a teacher that starts as this policy has no expected
gradient from them: the frame itself should move nothing. `contrast` says it of the very tokens that the teacher will be
asked about; places are those of the tree difference (`serl.hindsight.credit.difference`), and a missing part is the
doing of the token that was sampled in its place. With `teach.levels empty` c_n is ∅ too and there is no `own`: the
control that learns the same actions without hindsight.

Solutions alone are used, those that the database answered: states are as the policy met them, earlier turns included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from serl.config import Config, TeachConfig
from serl.errors import InputError
from serl.hindsight.context import Encode, Hindsight, empty_hindsight, make_hindsight, teacher_input
from serl.hindsight.controls import EMPTY
from serl.hindsight.credit.candidate import Candidate, Piece, candidate_of, marks
from serl.hindsight.credit.difference import Difference, Schema
from serl.hindsight.credit.sources import Comparer
from serl.hindsight.facts import Facts, facts_of, know
from serl.hindsight.levels import ContextOptions
from serl.train.samples import Sample
from serl.train.tail import Tail

CORRECTED, KEPT, OWN, CONTRAST = "corrected", "kept", "own", "contrast"


@dataclass(frozen=True)
class Lesson:
    """An action behind a state with hindsight. `signs` of the tail's tokens: +1 likelier, −1 less likely, 0 nothing."""

    question: str
    kind: str
    level: str
    tail: Tail
    signs: tuple[int, ...]
    sampled: tuple[float, ...] = ()  # the policy's log-prob of each token, for a contrast

    def weights(self, teach: TeachConfig) -> list[float]:
        """The weight of each scored token in the loss; below 0: less likely."""
        scale = teach.contrast if self.kind == CONTRAST else teach.imitation
        return [scale * sign for sign in self.signs if sign]


@dataclass(frozen=True)
class Solution:
    """A trajectory that ends with SQL which the database answered; `facts` hold no gold."""

    sample: Sample
    candidate: Candidate
    facts: Facts

    @property
    def action(self) -> list[int]:
        trajectory = self.sample.trajectory
        return trajectory.token_ids[slice(*trajectory.turns[-1].action)]


class LessonWriter:
    """Writes lessons of a config's `teach` options. InputError if `hindsight.budget` does not hold the empty frame."""

    def __init__(self, config: Config, encode: Encode, piece: Piece) -> None:
        self.config, self.encode, self.piece = config, encode, piece
        # What the run's own level needs an opt-in for is not shown here: `teach.levels` has none of these.
        self._options = replace(ContextOptions.of(config), level="exec", allow_gold=False)
        empty = empty_hindsight(self._options, encode)
        if empty is None:
            raise InputError(f"config: hindsight.budget {config.hindsight.budget} does not hold the frame of a "
                             "hindsight text; raise it")
        self._empty = empty

    def write(self, question: str, group: Sequence[Sample], schema: Schema | None) -> list[Lesson]:
        """The lessons of one question's trajectories, none unless there are right and wrong solutions among them.

        What a sample knows of gold is not read; for `exec+clauses` it must know what the parts of its action did. A
        lesson that does not fit the model's length is left out.
        """
        right, wrong = ([each for each in self._solutions(question, group) if each.sample.correct is verdict]
                        for verdict in (True, False))
        if not right or not wrong:
            return []
        random, compared = Random(f"{self.config.seed}/{question}"), Comparer(schema)
        lessons = [_targeted(question, KEPT, level, each, text, each.action)
                   for each in right for level, text in self._texts(each).items()]
        for each in wrong:
            target, difference = nearest(each, right, compared, random)
            lessons += [_targeted(question, CORRECTED, level, each, text, target.action)
                        for level, text in self._texts(each).items()]
            if difference is not None:
                lessons += [_contrast(question, level, each, text, difference)
                            for level, text in (self._texts(each) | {EMPTY: self._empty}).items()]
        if EMPTY not in self.config.teach.levels:
            lessons += [_targeted(question, OWN, EMPTY, each, self._empty, each.action)
                        for each in (*right, *wrong) if random.random() < self.config.teach.empty_share]
        return [lesson for lesson in lessons if len(lesson.tail.ids) <= self.config.model.max_length]

    def _solutions(self, question: str, group: Sequence[Sample]) -> Iterator[Solution]:
        finals = [sample.trajectory.final_sql for sample in group]
        known = know(question, finals, [sample.correct for sample in group], gold=None)
        for sample, final, each in zip(group, finals, known):
            if final is not None and sample.reward is not None:
                facts = facts_of(sample.trajectory.turns[-1], replace(each, parts=sample.known.parts))
                if facts.tells:
                    yield Solution(sample, candidate_of(sample.trajectory, self.piece, sample.correct), facts)

    def _texts(self, own: Solution) -> dict[str, Hindsight]:
        """The hindsight of a solution at each level that tells something of it."""
        made = {level: self._empty if level == EMPTY else make_hindsight(
                    own.facts, replace(self._options, level=level), self.encode) for level in self.config.teach.levels}
        return {level: text for level, text in made.items() if text is not None}


def nearest(wrong: Solution, right: Sequence[Solution], compared: Comparer, random: Random
            ) -> tuple[Solution, Difference | None]:
    """The right solution that a wrong one differs least from, with the difference; ties by chance.

    One by chance, without a difference, where none can be compared with it or differs from it.
    """
    found = [(difference, each) for each in right
             if isinstance(difference := compared(wrong.candidate.sql, each.candidate.sql), Difference)
             and not difference.equal]
    if not found:
        return random.choice(right), None
    least = min(difference.cost for difference, _ in found)
    difference, each = random.choice([pair for pair in found if pair[0].cost == least])
    return each, difference


def _targeted(question: str, kind: str, level: str, own: Solution, text: Hindsight, action: Sequence[int]) -> Lesson:
    """All of an action, behind the state of a solution with a text."""
    trajectory = own.sample.trajectory
    ids, first = teacher_input(trajectory, trajectory.turns[-1], text)
    tail = Tail([*ids[:first], *action], first, trajectory.turns[0].splice_at)
    return Lesson(question, kind, level, tail, (1,) * len(action))


def _contrast(question: str, level: str, own: Solution, text: Hindsight, difference: Difference) -> Lesson:
    """A wrong solution's own tokens: those that the difference blames, and the others of its SQL."""
    trajectory, turn = own.sample.trajectory, own.sample.trajectory.turns[-1]
    ids, first = teacher_input(trajectory, turn, text)
    wrong, scope = marks(own.candidate, difference).blamed, own.candidate.scope
    signs = tuple(-1 if token in wrong else int(token in scope) for token in range(*turn.action))
    tail = Tail(ids, first, trajectory.turns[0].splice_at, [sign != 0 for sign in signs])
    return Lesson(question, CONTRAST, level, tail, signs, tuple(trajectory.sampler_logprobs[slice(*turn.action)]))
