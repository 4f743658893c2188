"""What ends a run is one line: where, why, and how to go on."""

import errno
import os
import signal

import pytest

from serl.errors import InputError, Stopped, WorkFailed
from serl.tracking import RunFolder, read_metrics
from serl.train.failure import reported


def ended(folder, error: BaseException) -> str:
    kind = {InputError: InputError, Stopped: Stopped}.get(type(error), WorkFailed)
    with pytest.raises(kind) as found, reported(folder, lambda: "step 7 of 9"):
        raise error
    assert "\n" not in str(found.value)
    return str(found.value)


def test_an_unforeseen_error_keeps_its_traceback_beside_the_run(tmp_path):
    line = ended(tmp_path, ValueError("no\nsuch thing"))
    assert line == (f"step 7 of 9: ValueError: no such thing (traceback in {tmp_path}/error.txt); "
                    f"go on with `serl train --resume {tmp_path}`")
    assert "raise error\nValueError: no\nsuch thing" in (tmp_path / "error.txt").read_text()
    with reported(tmp_path, lambda: ""):
        assert not (tmp_path / "error.txt").exists(), "it was of the try before"


def test_a_full_disk_names_the_file_and_needs_no_traceback(tmp_path):
    line = ended(tmp_path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a/metrics.jsonl"))
    assert line.startswith("step 7 of 9: runs/a/metrics.jsonl: cannot be written (No space left on device); make room;")
    assert not (tmp_path / "error.txt").exists()
    assert "traceback in" in ended(tmp_path, FileNotFoundError(errno.ENOENT, "no such file", "x")), "that is a bug"


def test_failures_that_say_what_to_do_are_told_where_and_input_errors_stay_as_they_are(tmp_path):
    assert ended(tmp_path, WorkFailed("the server is gone")).startswith("step 7 of 9: the server is gone; go on with")
    assert ended(tmp_path, InputError("data: no")) == "data: no"
    assert ended(tmp_path, Stopped(signal.SIGTERM)) == (f"SIGTERM: left {tmp_path} at step 7 of 9; "
                                                        f"go on with `serl train --resume {tmp_path}`")


def test_metrics_that_do_not_fit_leave_the_file_as_it_was(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)
    run.append_metrics(0, {"loss": 0.5})
    before = (tmp_path / "metrics.jsonl").read_bytes()

    def half(file, data: bytes) -> None:
        file.write(data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("serl.tracking.write_all", half)
    with pytest.raises(OSError, match="metrics.jsonl"):
        run.append_metrics(1, {"loss": 0.25})
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_resumed_run_has_nothing_of_later_steps_and_no_half_files(tmp_path):
    run = RunFolder(tmp_path)
    for step in range(4):
        run.append_metrics(step, {})
        run.write_trajectories(step, [{}])
        run.write_guarded(step, [{}])
    for half in (".metrics.jsonl.ab.part", "trajectories/.step_000001.jsonl.ab.part", "eval/sft/.summary.json.ab.part"):
        (tmp_path / half).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / half).touch()
    run.rewind(1, 2)  # step 1 is taken, and its metrics are still to be written
    assert [row["step"] for row in read_metrics(tmp_path)] == [0]
    for folder in ("trajectories", "guards"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == ["step_000000.jsonl", "step_000001.jsonl"]
    assert not list(tmp_path.rglob("*.part"))
