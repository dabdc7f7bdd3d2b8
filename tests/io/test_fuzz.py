"""A seeded sample of the fuzzer; the whole of it is ``python tests/helpers/fuzz_g2o.py``."""

from __future__ import annotations

from helpers import fuzz_g2o


def test_mutants_are_read_or_refused(tmp_path):
    outcomes = fuzz_g2o.run(1500, seed=1, directory=tmp_path)
    assert set(outcomes) == {"read", "ParseError"}  # every refusal names the file
    assert outcomes["read"] > 100
    assert outcomes["ParseError"] > 100


def test_seeds_are_valid(tmp_path):
    for seed in fuzz_g2o.SEEDS:
        assert fuzz_g2o.check(seed.encode(), fuzz_g2o.ReadOptions(), tmp_path / "seed.g2o") == "read"
