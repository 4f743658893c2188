"""Starting ranks: which command, exit codes, and what a failed rank says, once."""

import json
import os
import subprocess
import sys

import pytest

from serl import launch
from serl.cli import main
from serl.launch import deepspeed_command, first_host
from tests.test_cli import RECIPE, ROOT, fails


def serl(*arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "serl.cli", *arguments], capture_output=True, text=True,
                          env=environment)


def test_wrong_input_of_all_ranks_is_one_line_and_exit_code_2(tmp_path):
    done = serl("train", "--processes", "2", "--config", str(tmp_path / "none.yaml"))
    (line,) = done.stderr.strip().splitlines()
    assert (done.returncode, done.stdout) == (2, "") and line.startswith(f"serl: {tmp_path / 'none.yaml'}: cannot read")


def test_ranks_run_the_command_without_the_launchers_options(monkeypatch):
    started = []
    monkeypatch.setattr(launch, "_start_here", lambda count, command: started.append((count, command)) or 7)
    assert main(["train", "--processes=2", "--config", "a.yaml", "--train.lr", "1", "--auto-resume"]) == 7
    assert main(["eval", "--checkpoint", "c", "--processes", "4", "--config", "a.yaml"]) == 7
    assert started == [(2, ["train", "--config", "a.yaml", "--train.lr", "1", "--auto-resume"]),
                       (4, ["eval", "--checkpoint", "c", "--config", "a.yaml"])]


def test_several_hosts_are_deepspeeds_to_start(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("# two machines\n\nnode-1 slots=8  # the first\nnode-2 slots=8\n")
    assert first_host(hosts) == "node-1"
    command = deepspeed_command(hosts, "slurm", ["train", "--config", "a.yaml"])
    assert command[:3] == [sys.executable, "-m", "deepspeed.launcher.runner"]
    assert command[-4:] == ["serl.cli", "train", "--config", "a.yaml"]
    given = dict(zip(command[3:-5:2], command[4:-5:2]))
    assert given["--hostfile"] == str(hosts) and given["--launcher"] == "slurm" and given["--master_addr"] == "node-1"


def test_the_options_of_a_launcher_that_do_not_fit_are_refused(capsys, tmp_path, monkeypatch):
    hosts = tmp_path / "hosts"
    hosts.write_text("node-1 slots=8\n")
    command = ["train", "--config", RECIPE]
    assert "at least 1" in fails(capsys, *command, "--processes", "0")
    assert "name one" in fails(capsys, *command, "--launcher", "slurm", "--processes", "2")
    assert "leave it out" in fails(capsys, *command, "--hostfile", str(hosts), "--processes", "2")
    assert "cannot be read" in fails(capsys, *command, "--hostfile", str(tmp_path / "none"))
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    assert "serl[deepspeed]" in fails(capsys, *command, "--hostfile", str(hosts))
    for text in ("", "node-1\n", "node-1 slots=many\n", "node-1 8\n", "a slots=0\n",
                 "a slots=1\nb slots=1\na slots=1\n"):
        hosts.write_text(text)
        assert str(hosts) in fails(capsys, *command, "--hostfile", str(hosts))


def test_a_command_for_one_process_is_refused_in_a_rank(capsys, monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert "without a launcher" in fails(capsys, "sql", "--db", "any.sqlite", "SELECT 1")


def test_a_rank_leaves_its_last_words_to_the_launcher(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(launch.ERROR_FILE, str(tmp_path / "words.json"))
    assert main(["train"]) == 2
    assert capsys.readouterr().err == ""
    assert "--resume RUN" in json.loads((tmp_path / "words.json").read_text())["message"]["message"]


def test_what_ranks_said_that_were_told_to_leave_is_told_once(capsys, tmp_path):
    for rank, text in (("0", "{half"), ("1", json.dumps({"message": {"message": "serl: left"}})), ("2", "[1]")):
        (tmp_path / rank).mkdir()
        (tmp_path / rank / "error.json").write_text(text)
    launch._tell_word(tmp_path)
    launch._tell_word(tmp_path / "0")
    assert capsys.readouterr().err == "serl: left\n"


class Failure:
    def __init__(self, exitcode: int, timestamp: int, message) -> None:
        self.exitcode, self.timestamp, self.message = exitcode, timestamp, message


@pytest.mark.parametrize(("failures", "code", "said"), [
    ({0: Failure(2, 5, {"message": "serl: no such file"}), 1: Failure(2, 4, {"message": "serl: no such file"})}, 2,
     "serl: no such file"),
    ({0: Failure(1, 4, {"message": "serl: rank 0 lost another"}), 1: Failure(-9, 5, "Signal 9 received")}, 1,
     "serl: rank 1 was ended by SIGKILL, and the others with it; a run goes on with --resume"),
    ({0: Failure(-15, 4, "Signal 15 received"), 1: Failure(2, 5, {"message": "serl: no such file"})}, 2,
     "serl: no such file"),
    ({1: Failure(1, 5, "To enable traceback see")}, 1, ""),
])
def test_of_ranks_that_fail_the_one_to_blame_is_told_of(failures, code, said, capsys):
    assert launch._tell(failures) == code
    assert capsys.readouterr().err.strip() == said
