"""What processes tell each other: sums, everyone's things in order, and an end to waiting for one that is gone."""

import os
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from serl.errors import InputError, WorkFailed
from serl.parallel import ALONE, LAUNCHED_BY, Ranks, alone, open_ranks, ranks_of

SIZE = 2


def run(work, *arguments) -> list:
    """`work(ranks, *arguments)` in two processes; what they return, in the order of ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(SIZE, get_context("spawn")) as pool:
        return [task.result(120) for task in [pool.submit(_begin, rank, port, work, arguments)
                                              for rank in range(SIZE)]]


def _begin(rank: int, port: int, work, arguments):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(SIZE), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port)}
    with open_ranks(2.0) as ranks:
        return work(ranks, *arguments)


def tell(ranks: Ranks) -> dict:
    tensor = torch.tensor([1.0, 10.0 * ranks.rank])
    ranks.reduce(tensor, "MAX")
    return {"tensor": tensor.tolist(), "to first": ranks.to_first(ranks.rank),
            "by first": ranks.first(lambda: f"made by {ranks.rank}"),
            "sum": ranks.sum(0.5 + ranks.rank), "most": ranks.most(-3.0 - ranks.rank),
            "everyone": ranks.gather(f"rank {ranks.rank}"), "first": ranks.from_first({"from": ranks.rank}),
            "three": ranks.interleaved([10 * place for place in ranks.share(3)], 3),
            "one": ranks.interleaved([place for place in ranks.share(1)], 1)}


def wait_in_vain(ranks: Ranks) -> str:
    if ranks.rank == 1:
        return "gone"
    with pytest.raises(WorkFailed, match="rank 0 of 2: another rank has ended"):  # or nobody came in time
        ranks.sum(1.0)
    return "raised"


def test_two_processes_tell_each_other():
    expected = {"tensor": [1.0, 10.0], "by first": "made by 0", "sum": 2.0,
                "most": -3.0, "everyone": ["rank 0", "rank 1"], "first": {"from": 0},
                "three": [0, 10, 20], "one": [0]}
    assert run(tell) == [expected | {"to first": [0, 1]}, expected | {"to first": None}]


def test_a_rank_that_waits_for_one_that_is_gone_raises():
    assert run(wait_in_vain) == ["raised", "gone"]


def test_one_process_needs_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with open_ranks(1.0) as ranks:
        assert ranks == ALONE and ranks.leads
    assert tell(ALONE) == {"tensor": [1.0, 0.0], "to first": [0], "by first": "made by 0",
                           "sum": 0.5, "most": -3.0, "everyone": ["rank 0"], "first": {"from": 0},
                           "three": [0, 10, 20], "one": [0]}


@pytest.mark.parametrize("count", [0, 1, 5, 6])
def test_everything_is_someones_once(count):
    parts = [list(Ranks(rank, 3).share(count)) for rank in range(3)]
    assert sorted(sum(parts, [])) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_who_a_process_is_stands_where_its_launcher_says_it():
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "HOME": "/root"}
    assert ranks_of(slurm) == ALONE, "one process of a batch job that nobody launched as a rank"
    assert ranks_of(slurm | {LAUNCHED_BY: "slurm"}) == Ranks(3, 4, 1)
    usual = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "2"}
    assert ranks_of(usual) == Ranks(2, 4, 0)
    assert alone(slurm | usual | {LAUNCHED_BY: "pdsh"}) == slurm


@pytest.mark.parametrize("told", ["WORLD_SIZE=2", "RANK=1", "RANK=0 WORLD_SIZE=2", "RANK=x WORLD_SIZE=2 LOCAL_RANK=0",
                                  "RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", "RANK=-1 WORLD_SIZE=2 LOCAL_RANK=0",
                                  "RANK=0 WORLD_SIZE=0 LOCAL_RANK=0"])
def test_half_an_environment_is_refused(told):
    with pytest.raises(InputError, match="RANK"):
        ranks_of(dict(pair.split("=") for pair in told.split()))


def test_who_does_not_find_rank_0_says_so(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(InputError, match="MASTER_ADDR"), open_ranks(1.0):
        pass
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # and nobody listens there
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(probe.getsockname()[1]))
        with pytest.raises(WorkFailed, match="the others were not found"), open_ranks(1.0):
            pass
