"""Candidates on disk: what selectors see comes back as it was, and nothing that gold is in comes with it."""

import json

import pytest

from serl.errors import InputError
from serl.select.candidate import Candidate, Use
from serl.select.pool import Pool, check_facts, read_pools, results_of
from tests.select.made import candidate, failed

FULL = candidate((1, "x", None, 2.5, b"\x00"), sql_logprob=-0.5, mean_logprob=-0.4, tokens=9, turns=2, revisions=1,
                 failures=0, text="<sql>…</sql>", use=Use(*range(10)), verified=0.25)


def row_of(greedy, *samples):
    return {"question_id": "7", "db_id": "shop", "greedy": greedy.to_json(), "samples": [s.to_json() for s in samples],
            "results": results_of((greedy, *samples))}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_candidates_survive_their_file_and_share_results(tmp_path):
    greedy = candidate((1,), greedy=True)
    row = row_of(greedy, FULL, failed(), FULL)
    assert len(row["results"]) == 2
    (pool,) = read_pools(write(tmp_path / "candidates.jsonl", row))
    assert pool == Pool("7", "shop", greedy, (FULL, failed(), FULL))


def test_gold_and_verdicts_beside_a_candidate_are_not_read(tmp_path):
    row = row_of(candidate((1,)), FULL)
    marked = row | {"gold_sql": "SELECT 1", "gold": {"status": "ok"},
                    "samples": [each | {"correct": True} for each in row["samples"]]}
    assert read_pools(write(tmp_path / "a.jsonl", row)) == read_pools(write(tmp_path / "b.jsonl", marked))
    assert not {"correct", "gold", "gold_sql"} & set(Candidate.__dataclass_fields__)
    with pytest.raises(AttributeError):  # no place for it either
        object.__setattr__(FULL, "correct", True)


def test_files_of_earlier_versions_are_read_and_what_they_lack_is_named(tmp_path):
    old = {"sql": "SELECT 1", "status": "ok", "correct": True, "result_key": "k", "turns": 1, "tokens": 5,
           "mean_logprob": -0.1, "text": ""}
    file = write(tmp_path / "old.jsonl", {"question_id": "1", "db_id": "a", "greedy": old, "samples": [old, old]})
    pools = read_pools(file)
    check_facts(file, pools, ["first", "vote", "adaptive"])
    for name, fact in (("soft", "result"), ("logprob", "sql_logprob"), ("reward", "use"), ("verifier", "verified")):
        with pytest.raises(InputError, match=f"{name} looks at a candidate's {fact}"):
            check_facts(file, pools, ["vote", name])


@pytest.mark.parametrize("row", [{}, [], {"greedy": {}, "samples": []}, {"greedy": {"sql": None}, "samples": [1]}])
def test_what_holds_no_candidates_is_an_input_error(tmp_path, row):
    file = write(tmp_path / "bad.jsonl", row_of(candidate((1,)), FULL), row)
    with pytest.raises(InputError, match="line 2: no candidates of a question"):
        read_pools(file)


def test_a_file_without_samples_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no samples"):
        read_pools(write(tmp_path / "greedy.jsonl", row_of(candidate((1,)))))


def test_selectors_are_offered_what_was_not_lost_and_greedy_its_own():
    greedy, lost, kept = candidate((1,), greedy=True), failed("infrastructure"), candidate((2,))
    pool = Pool("1", "a", greedy, (lost, kept, kept))
    assert pool.offered("vote", 2) == [kept] and pool.offered("greedy", 2) == [greedy]
    assert pool.choose("greedy", lambda offered: 0, 3) is greedy
    assert pool.choose("vote", lambda offered: None, 3) is None
