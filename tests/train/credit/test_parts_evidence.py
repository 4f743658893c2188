"""Parts as a credit source: whose parts are executed, and which weights follow, on the one city Lima (conftest.py)."""

import pytest
import torch

from serl.config import Config, HindsightConfig
from serl.hindsight.credit.sources import surprisal
from serl.reward.panel import Reward
from serl.train.credit.contexts import Case, Contexts
from serl.train.credit.evidence import add_evidence
from serl.train.credit.measure import gather, measure
from serl.train.parts import add_parts
from serl.train.samples import Sample, add_student
from tests.hindsight.credit.played import PIECE
from tests.train.credit.players import GOLD, example_of, said
from tests.train.credit.test_measure import CONFIG, GOLD_RESULT, rows_of
from tests.train.test_parts import Counting, played

ABSENT = "SELECT area FROM city WHERE name = 'lima'"
FAILING = "SELECT nome FROM city WHERE area > 5"
SOUND = "SELECT area FROM city WHERE area > 5"


@pytest.fixture(scope="module")
def samples(sandbox, city) -> list[Sample]:
    """An absent text behind a query that fails, a column that is not there, no sign, a success, and no signal."""
    rows = [(["<sql>SELECT x FROM city</sql>", f"<solution>{ABSENT}</solution>"], False, -0.6),
            ([f"<solution>{FAILING}</solution>"], False, -0.6), ([f"<solution>{SOUND}</solution>"], False, -0.6),
            ([f"<solution>{GOLD} AND name <> 'Lyon'</solution>"], True, 1.8),
            ([f"<solution>{ABSENT}</solution>"], False, 0.0)]
    return [Sample.of(played(sandbox, city, *texts), Reward(float(correct), {}, correct), advantage)
            for texts, correct, advantage in rows]


def weighed(model, samples, city, sandbox, source: str, **options) -> list[Sample]:
    config = Config(hindsight=HindsightConfig(source=source, **options))
    known = add_evidence(model, samples, [example_of(city)], 0.5, config, PIECE, sandbox)
    return add_student(model, known, 0.5, config)


def weights_of(sample: Sample) -> dict[float, str]:
    """The text of the tokens of each weight other than 1."""
    weights = [round(weight, 6) for weight in sample.weight.tolist()]
    return {weight: said(sample, [i for i, each in enumerate(weights) if each == weight]).replace(" ", "")
            for weight in set(weights) - {1.0}}


def test_signed_parts_of_failed_solutions_take_the_blame_and_nothing_else_is_weighed(model, samples, city, sandbox):
    absent, failing, *rest = weighed(model, samples, city, sandbox, "parts")
    assert weights_of(absent) == {1.1: "'lima'", 0.9: "SELECTareaFROMcityWHEREname="}
    assert weights_of(failing) == {1.1: "nome", 0.9: "SELECTFROMcityWHEREarea>5"}
    for sample in rest:
        assert (sample.weight == 1).all() and torch.isnan(sample.evidence).all()


def test_signs_are_added_to_surprisal_and_leave_it_as_it_is_where_there_are_none(model, samples, city, sandbox):
    both = weighed(model, samples, city, sandbox, "parts_surprisal")
    alone = weighed(model, samples, city, sandbox, "surprisal")
    for sample, other in zip(both[2:], alone[2:]):
        assert torch.equal(sample.weight, other.weight)
        torch.testing.assert_close(sample.gap, other.gap, equal_nan=True)
    absent, mask_T = both[0], both[0].hindsight_mask
    lift_T = absent.evidence - surprisal(absent.student, mask_T, False)
    signed = (lift_T < 0).nonzero().flatten().tolist()
    assert said(absent, signed).strip() == "'lima'"
    share = len(signed) / mask_T.sum().item()  # the mean of the nat that each of them has more
    expected_T = torch.where(mask_T, share, float("nan"))
    expected_T[signed] -= 1.0
    torch.testing.assert_close(lift_T, expected_T, equal_nan=True)


@pytest.mark.parametrize("source", ["parts", "parts_surprisal"])
def test_only_failed_solutions_with_a_signal_are_asked_about(model, samples, city, sandbox, source):
    counting = Counting(sandbox)
    weighed(model, samples, city, counting, source)
    # One statement each for those that ran; the one that failed is asked about by table, column and condition.
    assert len(counting.jobs) == 1 + 3 + 1
    asked = len(counting.jobs)
    weighed(model, samples, city, counting, source, mask="none")
    add_evidence(model, samples, [example_of(city)], 0.0, Config(hindsight=HindsightConfig(source=source)), PIECE,
                 counting)
    assert len(counting.jobs) == asked


def test_the_table_measures_parts_where_they_were_asked_about(model, samples, city, sandbox):
    def table(known: list[Sample]):
        cases = [Case(sample, example_of(city), GOLD_RESULT) for sample in known]
        return rows_of(measure(gather([cases], PIECE), model, [], Contexts({}, {}), CONFIG))

    asked, unasked = table(add_parts(sandbox, samples, [city] * len(samples))), table(samples)
    parts, both, plain = (asked[source, "", ""].overall for source in ("parts", "parts_surprisal", "surprisal"))
    assert parts.tokens < both.tokens == plain.tokens, "nothing is known of SQL without a sign"
    assert parts.value > 0.5 and both.value > plain.value
    assert set(asked) - set(unasked) == {("parts", "", ""), ("parts_surprisal", "", "")}
    assert unasked["surprisal", "", ""].overall == plain
