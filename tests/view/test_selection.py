"""The selection view's data: who picks what, and whether it is right."""

from serl.io import write_jsonl
from serl.view.selection import picks, question_document, selection_archive


def sample(key, correct, status="ok"):
    return {"sql": f"SELECT {key}", "status": status, "correct": correct, "result_key": key, "turns": 1, "tokens": 5,
            "mean_logprob": -0.1, "text": "…"}


ROW = {"question_id": "7", "db_id": "gym", "seen": True, "difficulty": "simple", "question": "q", "evidence": "e",
       "gold_sql": "SELECT b",
       "gold": {"status": "ok", "columns": ["b"], "rows": [[1]], "row_count": 1, "error": "", "ms": 0.1},
       "greedy": sample("a", False),
       "samples": [sample("x", False, "infrastructure"), sample("a", False), sample("b", True), sample("a", False),
                   sample(None, False, "error")]}


def test_picks_are_places_among_all_candidates_and_lost_samples_are_not_offered():
    # Greedy is place 0; the first usable sample is place 2; "a" has most votes; place 3 is the right one.
    # Nobody has stored results, log-probs of the SQL, or P("Yes").
    unknown = {"soft": None, "logprob": None, "verifier": None}
    assert picks(ROW) == {"first": 2, "greedy": 0, "vote": 2, "adaptive": 2, "oracle": 3} | unknown


def test_a_selector_that_takes_nothing_has_no_place():
    row = ROW | {"samples": [sample(None, False, "error")], "greedy": sample(None, False, "infrastructure")}
    assert [picks(row)[name] for name in ("first", "vote", "oracle")] == [1, None, None]


def test_the_index_has_a_row_a_question_of_every_stage_with_samples(tmp_path):
    write_jsonl(tmp_path / "eval" / "init" / "candidates.jsonl", [ROW | {"samples": []}])
    write_jsonl(tmp_path / "eval" / "rl" / "candidates.jsonl", [ROW, ROW | {"question_id": "8"}])
    index, archive = selection_archive(tmp_path)
    columns = index["columns"]
    assert index["selectors"] == ["first", "greedy", "vote", "soft", "logprob", "verifier", "adaptive", "oracle"]
    assert columns["stage"] == ["rl", "rl"] and columns["id"] == ["7", "8"]
    assert (columns["size"][0], columns["right"][0], columns["agree"][0]) == (5, 1, 2)
    assert columns["picks"][0] == [False, False, False, None, None, None, False, True]
    assert len(archive.elements()) == 1 and index["starts"] == [0]


def test_results_that_an_evaluation_kept_are_told_and_there_may_be_no_evaluation(tmp_path):
    kept = ROW | {"results": {"a": ROW["gold"] | {"rows": [["x" * 900]]}}}
    assert question_document(kept)["results"]["a"]["rows"] == [["x" * 199 + "…"]]
    assert question_document(ROW)["results"] == {}
    assert selection_archive(tmp_path)[0]["columns"] == {}
