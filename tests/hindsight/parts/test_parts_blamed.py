"""Which characters, then tokens, of a failed SQL the signs of its parts speak against (data: see conftest.py)."""

import pytest
import torch

from serl.hindsight.credit.candidate import candidate_of
from serl.hindsight.credit.sources import parts, parts_surprisal, surprisal
from serl.hindsight.parts.signs import telling_spans
from tests.hindsight.credit.played import PIECE, played, text_of

ABSENT = "SELECT id FROM city WHERE people > 6 AND name = 'lima'"
SOUND = "SELECT name FROM city WHERE people > 6"


@pytest.mark.parametrize(("sql", "blamed"), [
    (ABSENT, ["'lima'"]),
    ("SELECT id FROM city WHERE name <> 'Lyon'", ["'Lyon'"]),
    ("SELECT id FROM city WHERE name IN ('Lima', 'PUNO', 'L''Oroya')", ["'PUNO'", "'L''Oroya'"]),
    ("SELECT 'é', id FROM city WHERE people > 99 AND id > 1", ["people > 99"]),
    ("SELECT nome FROM city WHERE people > 6", ["nome"]),
    ("SELECT name FROM city WHERE nome = 'Lima' AND people > 6", ["nome = 'Lima'"]),
    ("SELECT 1 FROM city JOIN state ON city.id = state.id + 9 WHERE city.people > 6",
     ["state ON city.id = state.id + 9"]),
    # What holds the empty part is empty with it.
    ("SELECT name FROM city WHERE id IN (SELECT visit.city_id FROM visit WHERE visit.year = 1999)",
     ["visit.year = 1999"]),
    # Each condition keeps something, both keep nothing: nobody knows which is wrong.
    ("SELECT name FROM city WHERE people > 6 AND state_id = 2", []),
    # Signs of another kind: a join that loses a row, a condition that keeps all.
    ("SELECT city.name FROM city JOIN state ON city.state_id = state.id WHERE city.id > 0", []),
    (SOUND, []),
])
def test_a_sign_speaks_against_the_absent_literal_or_the_part(findings, sql, blamed):
    assert [sql[slice(*span)] for span in telling_spans(findings(sql))] == blamed


def said(trajectory, evidence_T: torch.Tensor, value: float) -> str:
    return text_of(trajectory, (evidence_T == value).nonzero().flatten().tolist()).replace(" ", "")


def test_signed_tokens_of_a_failed_sql_are_blamed_and_its_others_praised_by_one_nat(findings):
    trajectory = played(ABSENT)
    candidate = candidate_of(trajectory, PIECE, correct=False)
    evidence_T = parts(candidate, findings(ABSENT))
    assert said(trajectory, evidence_T, -1.0) == "'lima'"
    assert said(trajectory, evidence_T, 1.0) == "SELECTidFROMcityWHEREpeople>6ANDname="
    assert torch.isfinite(evidence_T).nonzero().flatten().tolist() == list(range(*candidate.tokens))


@pytest.mark.parametrize(("sql", "correct"), [(SOUND, False), (ABSENT, True)])
def test_without_a_sign_and_for_a_right_result_there_is_no_evidence(findings, sql, correct):
    assert torch.isnan(parts(candidate_of(played(sql), PIECE, correct), findings(sql))).all()


def test_a_sign_is_one_more_nat_of_surprisal():
    logp_T, signed_T = torch.tensor([-1.0, -3.0, -9.0]), torch.tensor([-1.0, 1.0, -1.0])
    mask_T = torch.tensor([True, True, False])
    assert parts_surprisal(logp_T, signed_T, mask_T, False).tolist() == [0.5, -0.5, -7.5]  # mean of 1 + 1 and 3
    nothing_T = torch.full((3,), float("nan"))
    for correct in (False, True):
        assert torch.equal(parts_surprisal(logp_T, nothing_T, mask_T, correct), surprisal(logp_T, mask_T, correct))
