"""The first use, which compiles, and every later one, which reads compiled code from disk, give the same bytes.

Other processors give other last digits, and the same explanation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import hashlib, json, sys
import numpy as np
import tempose

def digest(solution):
    draws = b"".join(np.ascontiguousarray(a).tobytes() for a in solution.draws.arrays)
    pose = solution.estimate.wxyz.tobytes() + solution.estimate.position.tobytes()
    spread = solution.nodes.covariance.tobytes()
    return [solution.potential.hex(), *(hashlib.sha256(x).hexdigest() for x in (pose, draws, spread))]

found = {}
graph = tempose.simulate(12, shape="sphere", seed=1).graph
for name in sys.argv[1:]:
    if name == "robust":
        found[name] = digest(tempose.solve(graph, draws=8, robust=True, noise="auto"))
    elif name in ("planar", "correlated"):
        found[name] = digest(tempose.solve(tempose.simulate(12, seed=1, **{name: True}).graph, draws=8))
    else:
        found[name] = digest(tempose.solve(graph, draws=8, sampler=name, starts=3 if name == "jumping" else 1))
print(json.dumps(found))
"""


def digests(home: Path, names: tuple[str, ...]) -> dict[str, list[str]]:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(home)}
    run = subprocess.run([sys.executable, "-c", SCRIPT, *names], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, list[str]] = json.loads(run.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("collapsed", "robust"),
        ("planar", "correlated"),
        ("geodesic", "geodesic-mh", "baoab-mh"),
        ("tempering", "jumping"),
    ],
)
def test_first_use_gives_the_bytes_of_later_use(tmp_path: Path, names: tuple[str, ...]) -> None:
    first = digests(tmp_path, names)
    assert digests(tmp_path, names) == first
    # compiled code that was read is enough: in another order, nothing is compiled that could differ
    assert digests(tmp_path, names[::-1]) == first


JUDGE = """
import json
import tempose

def judged(graph, **options):
    found = tempose.solve(graph, robust=True, draws=0, **options)
    wrong = [int(k) for k in found.verdicts.distrusted]
    places = [*found.estimate.position[0], *found.estimate.position[-1]]
    return [wrong, [one.probability for one in found.explanations], found.potential, *places]

print(json.dumps([
    judged(tempose.simulate(40, shape="manhattan", aliases=1, seed=0).graph),
    judged(tempose.simulate(20, wrong_edges=0.1, seed=0).graph, noise="auto"),
]))
"""


def judgements(**env: str) -> list[list[Any]]:
    run = subprocess.run(
        [sys.executable, "-c", JUDGE], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found: list[list[Any]] = json.loads(run.stdout)
    return found


def check_alike(found: list[list[Any]], wanted: list[list[Any]]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]  # the same edges are wrong
        assert one[1] == pytest.approx(other[1], abs=1e-6)
        assert one[2] == pytest.approx(other[2], rel=1e-9)
        assert one[3:] == pytest.approx(other[3:], abs=1e-6)


def test_other_kernels_of_blas_give_the_same_explanation() -> None:
    here, elsewhere = judgements(), judgements(OPENBLAS_CORETYPE="Nehalem")
    assert here[1][0]  # some are
    check_alike(elsewhere, here)


@pytest.mark.slow
def test_code_for_any_processor_gives_the_same_explanation(tmp_path: Path) -> None:
    check_alike(judgements(NUMBA_CPU_NAME="generic", NUMBA_CACHE_DIR=str(tmp_path)), judgements())
