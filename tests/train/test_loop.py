"""Where a run stops and goes on: signals, probes, the best checkpoint. A step is here a sum on a tiny model."""

import copy
import json
import os
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from serl import model as models
from serl.config import Config
from serl.data.example import Example
from serl.errors import InputError, Stopped
from serl.task import Split
from serl.tracking import RunFolder, Tracker, read_metrics
from serl.train import checkpoint, loop
from serl.train.loop import Loop
from serl.train.preempt import Preemption
from tests.models import tiny_model, tiny_tokenizer
from tests.ranks import in_threads

STEPS = 6
RIGHT = {2: 0.5, 4: 0.75, 6: 0.75}  # what the probes find, by steps taken


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


class Sums(Loop):
    """A step adds the questions drawn so far to a weight; `at`: by (place in a step, step), what happens there."""

    def __init__(self, bench, run, preemption, at) -> None:
        super().__init__(bench, run, Tracker("disabled"), preemption)
        self.at, self.updates = at, 0

    @property
    def version(self) -> tuple[int, ...]:
        return (self.updates,)

    def step(self, step: int) -> dict[str, float]:
        self.asked += 3
        self.at.get(("rollout", step), lambda: None)()
        self.preemption.hold()
        with torch.no_grad():
            self.bench.model.model.norm.weight[0] += self.asked
        self.updates += 1
        self.run.write_trajectories(step, [{"step": step}])
        self.at.get(("update", step), lambda: None)()
        return {"weight": self.bench.model.model.norm.weight[0].item(), "reward/mean": 0.0, "ex/train": 0.0}

    def state_dict(self) -> dict:
        return {"updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        self.updates = state["updates"]


@pytest.fixture
def run(tokenizer, tmp_path, monkeypatch):
    """`run(name, at, **options)`: a run in tmp_path/name, new or resumed, to its end or to what ends it."""

    def start(name: str, at=None, fingerprint: str = "a question", **options) -> Sums:
        config = Config()
        config = replace(config, train=replace(config.train, **{"steps": STEPS, "save_every": 2, "keep": 2} | options),
                         eval=replace(config.eval, every=2))
        newest = checkpoint.latest(tmp_path / name / "checkpoints")
        model = tiny_model(len(tokenizer)) if newest is None else models.load(str(newest), "float32")[0]
        example = Example("1", "shop", fingerprint, "", "SELECT 1", "simple", tmp_path / "x", "train")
        split = Split("train", [example], [0], {})
        bench = SimpleNamespace(config=config, model=model, tokenizer=tokenizer,
                                preparer=SimpleNamespace(load_split=lambda *_: split))
        with Preemption().listening() as preemption:
            sums = Sums(bench, RunFolder(tmp_path / name), preemption, at or {})

            def probe(_) -> dict:
                sums.at.get(("probe", sums.next_step - 1), lambda: None)()
                return {"questions": 4, "splits": {"seen": {"greedy": {"value": RIGHT[sums.next_step]}},
                                                   "all": {"greedy": {"value": RIGHT[sums.next_step]}}}}

            monkeypatch.setattr(loop, "probe", probe)
            if newest is not None:
                sums.restore(checkpoint.load_state(newest))
            sums.run.rewind(sums.written, sums.next_step)
            sums.train()
        return sums

    return start


def term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def names(sums: Sums) -> list[str]:
    return [path.name for path in checkpoint.complete(sums.checkpoints)]


@pytest.mark.parametrize("place, step, saved, written", [
    ("rollout", 3, 3, 3), ("update", 2, 3, 3), ("rollout", 2, 2, 2), ("probe", 3, 4, 3),
    ("update", 3, 4, 3), ("update", 5, 6, 5)])  # the last two: their probes are still to come
def test_a_run_that_is_told_to_leave_saves_and_goes_on_as_if_it_had_stayed(place, step, saved, written, run, tmp_path):
    whole = run("whole")
    with pytest.raises(Stopped) as stop:
        run("cut", {(place, step): term})
    assert stop.value.code == 143 and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert checkpoint.latest(tmp_path / "cut" / "checkpoints").name == f"step_{saved:06d}"
    assert len(read_metrics(tmp_path / "cut")) == written
    again = run("cut")
    assert len(list((tmp_path / "cut" / "trajectories").iterdir())) == STEPS
    assert read_metrics(tmp_path / "cut") == read_metrics(tmp_path / "whole")
    assert [row["weight"] for row in read_metrics(tmp_path / "whole")] == [4, 10, 19, 31, 46, 64]
    assert again.best == whole.best and names(again)[-2:] == names(whole)[-2:] == ["step_000004", "step_000006"]
    assert (tmp_path / "cut" / "checkpoints" / "best").resolve().name == "step_000004"


def test_what_is_dropped_leaves_what_the_checkpoint_before_holds(run, tmp_path):
    with pytest.raises(Stopped):
        run("cut", {("rollout", 2): term})
    file = tmp_path / "cut" / "checkpoints" / "step_000002" / "state.pt"
    before = file.stat().st_mtime_ns
    with pytest.raises(Stopped):
        run("cut", {("rollout", 2): term})
    assert file.stat().st_mtime_ns == before and checkpoint.load_state(file.parent)["asked"] == 6


def test_before_the_first_step_there_is_nothing_to_save(run, tmp_path):
    with pytest.raises(Stopped):
        run("cut", {("rollout", 0): term})
    assert not (tmp_path / "cut" / "checkpoints").exists()


def test_a_kill_after_the_metrics_of_a_probe_repeats_no_line(run, tmp_path):
    with pytest.raises(Stopped):
        run("cut", {("probe", 3): term})

    def killed() -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        run("cut", {("rollout", 4): killed})
    assert [row["step"] for row in read_metrics(tmp_path / "cut")] == [0, 1, 2, 3]
    run("cut")
    assert [row["step"] for row in read_metrics(tmp_path / "cut")] == list(range(STEPS))


def test_a_signal_whose_exception_is_lost_is_noticed_before_the_update(run, tmp_path):
    def lost() -> None:
        with pytest.raises(Stopped):
            term()

    with pytest.raises(Stopped):
        run("cut", {("rollout", 2): lost})
    assert len(read_metrics(tmp_path / "cut")) == 2


def test_ctrl_c_is_as_good_as_sigterm(run):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are deaf to it
    try:
        with pytest.raises(Stopped, match="SIGINT") as stop:
            run("cut", {("rollout", 1): lambda: signal.raise_signal(signal.SIGINT)})
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.code == 130


def test_the_best_checkpoint_stays_as_a_model_folder_and_the_link_follows_the_state(run, tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    sums = run("run", keep=1, save_every=6)
    assert names(sums) == ["step_000004", "step_000006"], "3/4 at step 6 too: the earlier of equals stays"
    assert os.readlink(folder / "best") == "step_000004" and not (folder / "step_000004" / "state.pt").exists()
    assert models.load(str(folder / "best"), "float32")[0].model.norm.weight[0] == 31
    (folder / "best").unlink()  # a kill between the checkpoint and the link
    assert run("run", keep=1).best == loop.Best(4, 0.75, 4)
    assert os.readlink(folder / "best") == "step_000004"
    assert not list(folder.glob(".*")), "nothing hidden is left"


def test_without_keep_best_only_the_last_checkpoints_stay(run, tmp_path):
    assert names(run("run", keep=1, keep_best=False)) == ["step_000006"]
    assert not (tmp_path / "run" / "checkpoints" / "best").exists()


def test_a_probe_of_other_questions_is_not_compared():
    best = loop.Best(2, 0.9, 10)
    assert not loop.Best(4, 0.8, 10).beats(best) and not loop.Best(4, 0.9, 10).beats(best)
    assert loop.Best(4, 0.8, 20).beats(best) and loop.Best(4, 0.0, 10).beats(None)
    assert loop.Best.of(4, {"questions": 0, "splits": {"all": {}}}) is None


def test_a_run_whose_questions_are_others_now_does_not_go_on(run):
    with pytest.raises(Stopped):
        run("cut", {("rollout", 2): term})
    with pytest.raises(InputError, match="so that it cannot go on exactly"):
        run("cut", fingerprint="another question")


def test_ranks_leave_together_when_one_is_told(tokenizer, tmp_path):
    config = Config()
    config = replace(config, train=replace(config.train, steps=STEPS, save_every=6), eval=replace(config.eval, every=0))
    split, model = Split("train", [], [], {}), tiny_model(len(tokenizer))

    def work(ranks) -> int:
        bench = SimpleNamespace(config=config, model=copy.deepcopy(model), tokenizer=tokenizer,
                                preparer=SimpleNamespace(load_split=lambda *_: split))
        preemption = Preemption(ranks)
        told = {("rollout", 2): lambda: preemption._receive(signal.SIGTERM, None)} if ranks.rank else {}
        sums = Sums(bench, RunFolder(tmp_path / str(ranks.rank)), preemption, told)
        sums.checkpoints = tmp_path / "checkpoints"
        with pytest.raises(Stopped) as stop:
            sums.train()
        assert stop.value.code == 143
        return sums.next_step

    assert in_threads(2, work) == [3, 3], "the step is brought to its end"
    assert checkpoint.load_state(checkpoint.latest(tmp_path / "checkpoints"))["next_step"] == 3
    assert len(read_metrics(tmp_path / "0")) == 3 and not read_metrics(tmp_path / "1")


def test_signals_are_left_alone_in_a_thread_and_where_they_are_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Preemption().listening():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def inside() -> None:
        with Preemption().listening():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_a_state_of_before_is_gone_on_from(run, tmp_path):
    """Checkpoints of before there were probes in the state, or fingerprints."""
    with pytest.raises(Stopped):
        run("cut", {("rollout", 2): term})
    file = tmp_path / "cut" / "checkpoints" / "step_000002" / "state.pt"
    state = {key: value for key, value in torch.load(file).items() if key in ("next_step", "asked", "updates")}
    torch.save(state, file)
    run("cut")
    assert json.loads((tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()[-1])["weight"] == 64
