import json
import subprocess
import sys

import pytest

from serl.environment import describe_environment
from serl.errors import InputError
from serl.tracking import RunFolder, Tracker, read_metrics, resolve_wandb_mode


@pytest.fixture
def no_login(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


def test_metrics_come_back_in_order_with_their_step(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.append_metrics(1, {"reward/mean": 0.5})
    folder.append_metrics(2, {"reward/mean": 0.75})
    assert read_metrics(folder.path) == [{"step": 1, "reward/mean": 0.5}, {"step": 2, "reward/mean": 0.75}]


def test_truncating_drops_the_given_step_and_later_ones(tmp_path):
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3):
        folder.append_metrics(step, {})
    folder.truncate_metrics(2)
    folder.append_metrics(2, {"again": True})
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2, "again": True}]


def test_a_line_cut_off_by_a_kill_is_ignored_and_removed_on_resume(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_metrics(1, {"name": "é"})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write('{"step": 2, "name": "é'.encode()[:-1])  # cut inside a character
    assert read_metrics(tmp_path) == [{"step": 1, "name": "é"}]
    folder.truncate_metrics(2)
    assert (tmp_path / "metrics.jsonl").read_text(encoding="utf-8") == '{"step": 1, "name": "é"}\n'


def test_damage_before_the_last_line_names_file_and_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


def test_a_run_without_steps_has_no_metrics(tmp_path):
    folder = RunFolder(tmp_path)
    folder.truncate_metrics(1)
    assert read_metrics(tmp_path) == []


def test_trajectories_of_a_step_are_replaced_whole(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_trajectories(12, [{"question_id": "a"}, {"question_id": "b"}])
    path = folder.write_trajectories(12, [{"question_id": "c"}])
    assert path == tmp_path / "trajectories" / "step_000012.jsonl"
    assert path.read_text() == '{"question_id": "c"}\n'


def test_config_and_environment_are_written_readably(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_config({"name": "tränen", "train": {"lr": 0.5, "tags": ["a"]}})
    assert (
        (tmp_path / "config.yaml").read_text(encoding="utf-8").startswith("name: tränen\ntrain:\n  lr: 0.5\n")
    )
    folder.write_environment(["serl", "train"])
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert environment["argv"] == ["serl", "train"]
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert environment["packages"]["numpy"]
    assert environment["cpu_count"] >= 1


def test_the_environment_can_be_described_where_there_is_no_git(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = describe_environment([])
    assert (environment["git"], environment["gpus"]) == (None, [])


def test_a_run_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="run folder"):
        RunFolder(tmp_path / "file" / "run")


def test_two_processes_do_not_work_in_one_run_folder(tmp_path):
    (tmp_path / "config.yaml").write_text("name: a\n")
    code = "from pathlib import Path; from serl.tracking import RunFolder; RunFolder(Path({!r})).claim()"

    def another() -> str:
        return subprocess.run([sys.executable, "-c", code.format(str(tmp_path))], capture_output=True, text=True,
                              check=False).stderr

    assert another() == ""
    RunFolder(tmp_path).claim()
    refused = f"run folder {tmp_path}: another process is at work in it"
    assert refused in another()
    for command in ("train", "sft"):
        code = f"from serl.cli import main; main(['{command}', '--resume', {{!r}}])"
        assert another().startswith(f"serl: {refused}")


def test_auto_is_offline_without_a_login_and_online_with_one(no_login, monkeypatch):
    assert resolve_wandb_mode("auto") == "offline"
    no_login.write_text("machine api.wandb.ai login user password secret\n")
    assert resolve_wandb_mode("auto") == "online"
    no_login.write_text("machine example.org login user password secret\n")
    assert resolve_wandb_mode("auto") == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert resolve_wandb_mode("auto") == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert resolve_wandb_mode("auto") == "disabled"


def test_an_unknown_mode_is_refused():
    with pytest.raises(InputError, match="onlin"):
        Tracker(mode="onlin")


def test_disabled_does_not_import_wandb():
    code = (
        "import sys; from serl.tracking import Tracker;"
        "t = Tracker('disabled'); t.log(1, {'a': 1.0}); t.finish();"
        "print('wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_offline_writes_beside_the_run_and_prints_nothing(no_login, tmp_path):
    done = track("auto", tmp_path / "w")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list((tmp_path / "w" / "wandb").glob("offline-run-*/run-*.wandb"))) == 1


def test_auto_goes_on_offline_when_the_server_cannot_be_reached(no_login, dead_server, tmp_path):
    done = track("auto", tmp_path / "w")
    assert (done.returncode, done.stdout) == (0, "")
    assert "logging offline" in done.stderr and len(done.stderr.splitlines()) == 1
    assert len(list((tmp_path / "w" / "wandb").glob("offline-run-*/run-*.wandb"))) == 1


def test_online_is_refused_in_one_line_when_the_server_cannot_be_reached(no_login, dead_server, tmp_path):
    done = track("online", tmp_path / "w")
    assert done.returncode == 1
    assert "InputError: wandb: " in done.stderr.splitlines()[-1]


@pytest.fixture
def dead_server(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # the discard port: nobody listens


def track(mode, folder):
    """Log one step in a process of its own: wandb keeps global state, and all of its output is seen."""
    code = (
        "import sys; from pathlib import Path; from serl import tracking;"
        "tracking.WANDB_INIT_TIMEOUT_S = 1.5; mode, folder = sys.argv[1:];"
        "t = tracking.Tracker(mode, name='n', config={'lr': 1}, tags=['t'], dir=Path(folder));"
        "t.log(1, {'reward/mean': 0.5}); t.finish(); t.finish()"
    )
    command = [sys.executable, "-c", code, mode, str(folder)]
    return subprocess.run(command, check=False, capture_output=True, text=True)
