"""The probe's arithmetic, by hand."""

import math

import numpy as np
import pytest
import torch

from serl.generate.probe import Probe, largest, probe_sequences, trainer_logprobs
from tests.models import tiny_model


def test_the_difference_is_the_largest_of_all_tokens_and_is_said_where():
    probe = Probe([[-1.0, -2.0], [-3.0, -4.0]], [[-1.0, -2.1], [-3.0, -3.5]])
    assert probe.difference == pytest.approx(0.5)
    assert probe.describe() == ("token 2 of probe sequence 1 has log-prob -4.000000 for the trainer and -3.500000 for "
                                "the engine")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_differs_infinitely(value):
    probe = Probe([[-1.0, -2.0]], [[-1.5, value]])
    assert probe.difference == math.inf and "token 2" in probe.describe()


def test_sequences_are_fixed_by_the_seed_and_within_the_vocabulary():
    sequences = probe_sequences(50, 3)
    assert sequences == probe_sequences(50, 3) != probe_sequences(50, 4)
    assert np.shape(sequences) == (4, 32) and np.min(sequences) >= 0 and np.max(sequences) < 50
    assert np.shape(probe_sequences(50, 3, length=7)) == (4, 7)


def test_an_engine_nearer_to_the_weights_before_is_stale_where_the_two_can_be_told_apart():
    before, now = [[-1.0, -2.0]], [[-1.001, -2.0]]
    assert Probe(now, [[-1.0001, -2.0]]).stale(before, noise=1e-6)
    assert not Probe(now, [[-1.0009, -2.0]]).stale(before, noise=1e-6)
    assert not Probe(now, [[-1.0001, -2.0]]).stale(before, noise=1e-3), "rounding alone could be it"
    assert not Probe(now, [[-1.0001, -2.0]]).stale(None, noise=0.0), "there was nothing before"


def test_the_trainers_log_probs_are_those_of_each_next_token_and_leave_its_mode_alone():
    model = tiny_model(40).train()
    sequences = probe_sequences(40, 0, length=5)
    found = trainer_logprobs(model, sequences)
    assert model.training and np.shape(found) == (4, 4)
    with torch.no_grad():
        logits = model.eval()(input_ids=torch.tensor(sequences[2:3])).logits[0, 2]
    assert found[2][2] == pytest.approx(float(logits.log_softmax(-1)[sequences[2][3]]), abs=1e-6)
    assert largest(found, found) == 0
