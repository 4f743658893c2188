"""The bench of very large databases, at a small size."""

import sqlite3

import numpy as np
import pytest

from experiments.bench.grounding_scale import StandIn, benchmark, generate, table


def test_the_generated_database_has_as_many_distinct_texts_as_asked_for(tmp_path):
    path = tmp_path / "scale.sqlite"
    assert generate(path, 1003)["texts"] == 1003
    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        names = [name for table in tables for (name,) in connection.execute(f"SELECT name FROM {table}")]
    assert len(set(names)) == 1003 and len(names) > 1200


def test_the_stand_in_gives_the_same_unit_vectors_again_and_near_ones_to_misspelt_texts():
    vectors = StandIn().encode(["Sinclair Publishing", "Sinclar Publishing", "A-12345", ""])
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5) and vectors.shape == (4, 384)
    assert np.array_equal(vectors, StandIn().encode(["Sinclair Publishing", "Sinclar Publishing", "A-12345", ""]))
    assert vectors[0] @ vectors[1] > 0.7 > vectors[0] @ vectors[2]


@pytest.mark.slow
def test_the_bench_runs_and_says_that_the_stand_in_is_no_encoder(tmp_path):
    report = benchmark(tmp_path, 600, "stand-in", 6)
    assert report["build, with embeddings"]["encoded"] >= 600
    assert report["answers, lexical"]["found_exact"] == 1.0
    assert report["build, lexical"]["bytes_a_value"] < 1000
    assert "NO SENTENCE ENCODER" in table(report)
    assert benchmark(tmp_path, 600, "stand-in", 6) == report, "a finished stage is not run again"
