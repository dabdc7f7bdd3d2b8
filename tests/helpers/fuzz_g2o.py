"""Mutate small g2o files and check that the reader either reads them or says why not.

    python tests/helpers/fuzz_g2o.py --n 100000 --seed 0

Every mutant must give a PoseGraph or a TemposeError; any other exception, and any warning, is a failure, printed with
the mutant that caused it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from helpers.mutations import Mutate, cut, flip, lines, words
from tempose.errors import TemposeError
from tempose.io import ReadOptions, read_graph
from tempose.model.graph import PoseGraph

_INFO3 = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 25 0 0 25 0 25"
_INFO_DENSE = "10 1 0 0.5 0 0 11 0 0 0.1 0 12 0 0 0 400.021 0.00193512 2.06612 399.993 0.496977 99.203"
SEEDS = [
    f"""VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1
VERTEX_SE3:QUAT 1 1.0 0.1 -0.2 0 0 0.6 0.8
VERTEX_SE3:QUAT 2 2.0 0.1 -0.2 0.5 0.5 0.5 0.5
FIX 0
EDGE_SE3:QUAT 0 1 1.0 0.1 -0.2 0 0 0.6 0.8 {_INFO3}
EDGE_SE3:QUAT 1 2 0.5 0.2 0.3 0.5 -0.5 0.5 0.5 {_INFO_DENSE}
EDGE_SE3:QUAT 2 0 -1 0 0 1 0 0 0 {_INFO_DENSE}
""",
    """# planar
VERTEX_SE2 10 0 0 0
VERTEX_SE2 20 1 0 1.57
EDGE_SE2 10 20 1 0 1.57 500 0 0 500 0 5000
EDGE_SE2 20 10 0.1 -1 -1.57 500 10 1 400 2 5000
""",
    f"""EDGE3 0 1 0.25 -0.045 -0.0007 0.0015 0.005 0.1256 {_INFO3}
EDGE3 1 9223372036854775807 0.25 -0.045 -0.0007 0.0015 0.005 0.1256 {_INFO_DENSE}
VERTEX_TRACKXYZ 7 1 2 3
""",
    f"""\ufeffVERTEX_SE3:QUAT -5 0,5 0 0 0 0 0 1\r
VERTEX_SE3:QUAT 3 1,5 0 0 0 0 0 1\r
EDGE_SE3:QUAT -5 3 1,0 0 0 0 0 0 1 {_INFO3}\r
""",
    f"""PARAMS_SE3OFFSET 0 0.1 0 0.5 0 0 0.6 0.8
VERTEX_SE3:QUAT 0 691000.25 5334000.5 520 0 0 0 1
VERTEX_SE3:QUAT 1 691001.25 5334000.5 520 0 0 0.6 0.8
VERTEX_TRACKXYZ 7 691001 5334002 520
VERTEX_PLANE 8 0 0 1 0
FIX 1 8
EDGE_SE3:QUAT 0 1 1.0 0.1 -0.2 0 0 0.6 0.8 {_INFO_DENSE}
EDGE_SE3_TRACKXYZ 0 7 0 1 2 0.5 10 1 0 10 0 10
INLIER_PRIOR 0 7 0.5
EDGE_SE3_PRIOR 0 0 691000 5334000 520 0 0 0 1 {_INFO_DENSE}
EDGE_SE3_XYZPRIOR 0 0 691000 5334000 520 10 1 0 10 0 10
EDGE_SE3_PRIORXY 0 691000 5334000 4 1 4
EDGE_SE3_PRIORXYZ 0 691000 5334000 520 4 0 0 4 0 1
EDGE_SE3_PRIORQUAT 0 1 0 0 0 9 0 0 9 0 9
INLIER_PRIOR 0 0.5
EDGE_SE3_PRIORVEC 0 0 0 1 0 0.1 1 9 0 0 9 0 9
EDGE_POINTXYZ_PRIOR 7 691001 5334002 520 4 0 0 4 0 1
""",
    """VERTEX_SE2 0 0 0 0
VERTEX_SE2 1 20000.5 0 1.57
VERTEX_XY 7 1 2
FIX 0
EDGE_SE2 0 1 1 0 1.57 500 3 -2 400 5 5000
EDGE_SE2_XY 1 7 1 2 10 1 10
EDGE_PRIOR_SE2 1 20000 0 1.5 1 0 0 1 0 1
EDGE_PRIOR_SE2_XY 1 20000 0 1 0 1
EDGE_PRIOR_XY 7 1 2 1 0.5 1
EDGE_BEARING_SE2_XY 1 7 0.5 1
""",
]
_TOKENS = [
    "nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "-0", "0", "1", "-1", "1e308", "1e-308", "1e99", "1e-99",
    "9223372036854775808", "-9223372036854775808", "9" * 40, "9" * 5000, "1,5", "1,2,3", ",", "1.5", "1_000", "٣", "１",
    "½", "é", "\u2028", "0x10", "1e", "--1", "+1", "1.#IND", "", "#", "EDGE_SE3:QUAT", "EDGE_SE3:QUAT,", "VERTEX_SE2",
    "VERTEX_XY", "EDGE_PRIOR_SE2", "EDGE_SE3_PRIORVEC", "INLIER_PRIOR",
    "FIX", "EDGE_SE2", "EDGE3", "True", "None", "'", '"', "\\", "\x0b", "\x1c", "5e-324", "1e200", "-1e100",
]  # fmt: skip


def _edit_tokens(rng: np.random.Generator, data: bytes) -> bytes:
    return words(rng, data, _TOKENS)


def _edit_information(rng: np.random.Generator, data: bytes) -> bytes:
    """Random symmetric blocks: indefinite, singular, zero, huge, faint."""
    lines = data.decode("utf-8", "replace").split("\n")
    edges = [k for k, line in enumerate(lines) if line.startswith("EDGE_SE3")]
    if not edges:
        return _edit_tokens(rng, data)
    k = edges[rng.integers(len(edges))]
    fields = lines[k].split(" ")[:10]
    size = 10.0 ** rng.choice([-110, -99, -50, 0, 3, 49, 99])
    root = rng.standard_normal((6, int(rng.integers(7))))
    matrix = root @ root.T if rng.random() < 0.6 else rng.standard_normal((6, 6))
    matrix[rng.random((6, 6)) < 0.2] = 0.0
    if rng.random() < 0.3:
        matrix[:3, 3:] = 0.0
    values = (matrix * size)[np.triu_indices(6)]
    lines[k] = " ".join(fields + [repr(float(v)) for v in values])
    return "\n".join(lines).encode()


MUTATIONS: tuple[Mutate, ...] = (flip, _edit_tokens, _edit_tokens, lines, cut, _edit_information)


def mutant(rng: np.random.Generator) -> bytes:
    """A seed text after one or two mutations."""
    data = SEEDS[rng.integers(len(SEEDS))].encode()
    for _ in range(int(rng.integers(1, 3))):
        data = MUTATIONS[rng.integers(len(MUTATIONS))](rng, data) if data else data
    return data


def check(data: bytes, options: ReadOptions, path: Path) -> str:
    """Outcome of reading ``data``: ``"read"`` or the name of the error. Anything unexpected is raised."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            graph = read_graph(path, options)
        except TemposeError as error:
            if "\n" in str(error):
                raise AssertionError(f"an error of more than one line: {error}") from error
            return type(error).__name__
    if not isinstance(graph, PoseGraph):
        raise AssertionError(f"read_graph gave a {type(graph).__name__}")
    return "read"


def run(n: int, seed: int, directory: Path) -> Counter[str]:
    """Check ``n`` mutants; the same seed gives the same ones."""
    outcomes: Counter[str] = Counter()
    path = directory / "mutant.g2o"
    for k in range(n):
        rng = np.random.default_rng([seed, k])
        data = mutant(rng)
        options = ReadOptions(
            rotation_information=str(rng.choice(["rotation-vector", "quaternion-vector"])),
            precision=str(rng.choice(["isotropic", "full", "se-sync"])),
        )
        try:
            outcomes[check(data, options, path)] += 1
        except Exception as error:
            raise AssertionError(f"mutant {k} of seed {seed}, {options}:\n{data!r}") from error
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        outcomes = run(args.n, args.seed, Path(directory))
    print(f"{args.n} mutants of seed {args.seed} in {time.perf_counter() - start:.0f} s: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
