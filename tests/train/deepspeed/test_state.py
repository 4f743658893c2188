"""Checkpoints of a DeepSpeed engine: anyone opens the model, the same number of ranks goes on exactly."""

from pathlib import Path

import pytest
import torch

from serl import lora
from serl import model as models
from serl.config import LoraConfig
from serl.errors import InputError
from serl.generate.vllm.weights import checkpoint_weights, write_weights
from serl.train import checkpoint
from serl.train.engine import TorchEngine
from serl.train.scoring import Tail, logprobs
from tests.train.deepspeed.cases import Case, Learner, batch

pytestmark = [pytest.mark.engine, pytest.mark.deepspeed, pytest.mark.timeout(900)]

TAIL = Tail([5, 9, 30, 7, 12, 40], 3, 2)
CASES = {"zero 1": Case(1), "zero 2 offloaded": Case(2, offload="optimizer"), "zero 3": Case(3, tied=False),
         "zero 3 offloaded": Case(3, offload="parameters"), "zero 3 adapters": Case(3, rank=4),
         "zero 1 bfloat16": Case(1, dtype="bfloat16"), "zero 3 bfloat16": Case(3, dtype="bfloat16"),
         "zero 3 adapters, bfloat16": Case(3, rank=4, dtype="bfloat16")}


def step(learner: Learner, ranks) -> dict[str, float]:
    return learner.step([batch()[place] for place in learner.case.parts[ranks.rank]])


def go_on(ranks, case: Case, folder: Path, base: Path) -> dict:
    """A step, a checkpoint, a step; and the last one again by a run that begins from the checkpoint."""
    learner = Learner(case, ranks, base)
    step(learner, ranks)
    state = {"updates": 1, "engine": learner.engine.state_dict(), "teacher": learner.teacher.state_dict(),
             "reference": learner.reference.state_dict()}
    path = checkpoint.save(folder, 1, learner.model, learner.tokenizer, state, 1, ranks=ranks,
                           apart=learner.engine.apart)
    saved = learner.weights()
    pushed = {name: weight.clone() for name, weight in checkpoint_weights(learner.model, torch.float32)}
    _, prints = write_weights(base.with_name(f"rank_{ranks.rank}"), learner.model, torch.float32, "1")
    metrics = step(learner, ranks)

    again = Learner(case, ranks, path)
    loaded = checkpoint.load_state(path, ranks)
    again.teacher.load_state_dict(loaded["teacher"])
    again.reference.load_state_dict(loaded["reference"])
    again.engine.load_state_dict(loaded["engine"])
    repeated = step(again, ranks)
    ends = learner.weights(), again.weights()
    same = all(torch.equal(weight, ends[1][name]) for name, weight in ends[0].items())
    return {"path": path, "saved": saved, "pushed": pushed, "prints": prints, "metrics": metrics,
            "repeated": repeated, "same": same}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_checkpoint_is_a_plain_model_and_the_run_goes_on_from_it_exactly(run, case, tmp_path):
    base = tmp_path / "base"
    plain = Learner(Case(tied=case.tied, dtype=case.dtype))
    checkpoint.save_model(base, plain.model, plain.tokenizer)
    for rank in range(2):
        (tmp_path / f"rank_{rank}").mkdir()
    both = run(go_on, case, tmp_path / "checkpoints", base)
    for found in both:
        assert found["same"] and found["repeated"] == found["metrics"]
    path, saved = both[0]["path"], both[0]["saved"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["step_000001"]

    opened, _ = models.load(str(path), case.dtype)
    expected, _ = models.load(str(base), case.dtype)
    if case.rank:
        lora.add(expected, LoraConfig(rank=case.rank), "somewhere", seed=0)
    missing = expected.load_state_dict(saved, strict=False)
    assert not missing.unexpected_keys
    expected.tie_weights()
    with torch.no_grad():
        (ours,), (theirs,) = logprobs(opened, [TAIL], 1.0, True), logprobs(expected, [TAIL], 1.0, True)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 if case.dtype == "float32" else 0.05)

    with_tied = {name: value for name, value in opened.named_parameters()}
    for found in both:  # what an engine that samples is given is the model of the checkpoint, on each rank
        assert found["pushed"].keys() == with_tied.keys()
        for name, weight in found["pushed"].items():
            torch.testing.assert_close(weight, with_tied[name].float(), rtol=0, atol=1e-6)
        for name, (value, size) in write_weights(tmp_path, opened, torch.float32, "1")[1].items():
            assert found["prints"][name] == pytest.approx([value, size], abs=1e-5 * max(1.0, size))

    with pytest.raises(InputError, match="2 processes wrote it.* has 1; resume with 2"):
        checkpoint.load_state(path)
    parts = torch.load(path / "state_rank_1.pt", weights_only=True)
    with pytest.raises(InputError, match=f"engine.zero {case.zero}"):
        TorchEngine(torch.nn.Linear(2, 2), 1.0, 0.0, 1.0, lambda step: 1.0).load_state_dict(parts["engine"])
