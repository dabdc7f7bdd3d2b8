"""A seeded sample of the fuzzers; the whole is ``python tests/helpers/fuzz_g2o.py`` and ``.ci/fuzz``."""

from __future__ import annotations

import pytest

from helpers import fuzz_files, fuzz_g2o


def test_mutants_are_read_or_refused(tmp_path):
    outcomes = fuzz_g2o.run(1500, seed=1, directory=tmp_path)
    assert set(outcomes) == {"read", "ParseError"}  # every refusal names the file
    assert outcomes["read"] > 100
    assert outcomes["ParseError"] > 100


def test_seeds_are_valid(tmp_path):
    for seed in fuzz_g2o.SEEDS:
        assert fuzz_g2o.check(seed.encode(), fuzz_g2o.ReadOptions(), tmp_path / "seed.g2o") == "read"


QUICK = {
    "g2o": 100,
    "resume": 10,
    "result likelihood": 10,
    "result explanations": 10,
    "draws": 40,
    "result": 60,
    "colmap database": 100,
}
"""Mutants of targets that take longer, by what their names begin with; of the others 300."""


def test_every_kind_of_file_is_read_or_refused() -> None:
    """In a process of its own, which a mutant may kill."""
    names = [target.name for target in fuzz_files.targets()]
    if not fuzz_files.has("pycolmap"):  # cameras with distortion
        names = [name for name in names if not name.startswith(("colmap", "cameras.txt"))]
    count = {name: next((n for start, n in QUICK.items() if name.startswith(start)), 300) for name in names}
    failed = {}
    for n in sorted(set(count.values())):
        chosen = [name for name in names if count[name] == n]
        failed |= {name: said for name, fine, said in fuzz_files.run_apart(chosen, n, seed=1) if not fine}
    assert not failed


def test_the_harness_notices(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that raises, warns, or speaks in two lines is a failure."""
    from tempose.errors import FileError

    class TwoLinesError(FileError):
        def __str__(self) -> str:
            return "a\nb"

    for k, what in enumerate((ValueError("x"), RuntimeWarning("x"), TwoLinesError("x"))):
        calls = []

        def read(path, what=what, calls=calls):
            calls.append(path)
            if len(calls) > 2:
                raise what
            return path

        target = fuzz_files.Target("x", fuzz_files.text_file("a.txt", "1 2 3"), read, fuzz_files.TEXT)
        with pytest.raises(AssertionError, match="mutant 1 of x"):
            fuzz_files.run(target, 5, 0, tmp_path / str(k))
