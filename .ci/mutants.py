"""One-line mutations of the package, and whether the tests notice: ``python .ci/mutants.py [WORDS …] [--all] [--list]``.

Each row of the table changes one place of the source to something plausible and wrong. The package is copied to a
temporary folder, the change is made there, and the tests named in the row run against the copy; with ``--all`` all quick
tests do. A mutant is killed if a test fails that passes on the package as it is. What survives is printed with its reason,
and the exit status is 1.

The text to be replaced must occur exactly once in its file: a table that no longer fits the source is an error, told before
anything runs. WORDS choose the rows whose file or reason has one of them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tempose"


@dataclass(frozen=True)
class Mutant:
    """A change of one place: file below ``src/tempose``, old text, new text, what is wrong with it, tests to run."""

    file: str
    old: str
    new: str
    why: str
    tests: str


ACCEPT = "math.exp(min(0.0, -error))"
TOO_KIND = "math.exp(min(0.0, -0.9 * error))"

MUTANTS = [
    # ------------------------------------------------------------------ optimum
    Mutant(
        "optimum/certificate.py",
        "_NEGLIGIBLE = 1e-6",
        "_NEGLIGIBLE = 1.0",
        "the certificate calls a gap of 1 in U rounding",
        "tests/optimum/test_certificate.py -k millionth",
    ),
    # ------------------------------------------------------------------ sampling
    Mutant(
        "sampling/draws.py",
        "path.stat().st_size >= size else None",
        "True else None",
        "draw files shorter than their checkpoint are taken",
        "tests/sampling/test_driver.py",
    ),
    Mutant(
        "sampling/driver.py",
        "made = sampler.warmup + writer.n_draws",
        "made = writer.n_draws",
        "draws use the random numbers of the warm-up again",
        "tests/sampling/test_driver.py",
    ),
    Mutant(
        "sampling/driver.py",
        "made = sampler.warmup + writer.n_draws",
        "made = sampler.warmup + writer.n_draws + (arrays is not None)",
        "a resumed chain is one random number ahead",
        "tests/sampling/test_driver.py",
    ),
    Mutant(
        "sampling/collapsed.py",
        ACCEPT,
        TOO_KIND,
        "collapsed accepts exp(−0.9 error)",
        "tests/sampling/test_acceptance.py -k collapsed",
    ),
    Mutant(
        "sampling/geodesic.py",
        ACCEPT,
        TOO_KIND,
        "geodesic-mh accepts exp(−0.9 error)",
        "tests/sampling/test_acceptance.py -k geodesic",
    ),
    Mutant(
        "sampling/adjusted.py",
        ACCEPT,
        TOO_KIND,
        "the adjusted schemes accept exp(−0.9 error)",
        "tests/sampling/test_acceptance.py -k adjusted",
    ),
    Mutant(
        "sampling/adjusted.py",
        "replace(before, velocity=-before.velocity)",
        "before",
        "a refused step keeps its velocity",
        "tests/sampling/test_acceptance.py -k adjusted",
    ),
    Mutant(
        "sampling/tempering.py",
        "np.diff(self.betas) * np.diff(self.potential)",
        "0.9 * np.diff(self.betas) * np.diff(self.potential)",
        "replicas change places too easily",
        "tests/sampling/test_acceptance.py -k tempering",
    ),
    Mutant(
        "sampling/tempering.py",
        "error = self.betas * (potential",
        "error = self.betas[0] * (potential",
        "every replica is tested at the β of the coldest",
        "tests/sampling/test_acceptance.py -k tempering",
    ),
    Mutant(
        "sampling/tempering.py",
        '"parity": np.array(float(self.parity)),',
        '"parity": np.array(0.0),',
        "a resumed ladder forgets whose turn it is",
        "tests/contract/test_samplers.py -k 'tempering and resumed'",
    ),
    Mutant(
        "sampling/jumping.py",
        "self.point.remainder - point.remainder + here - there",
        "self.point.remainder - point.remainder",
        "jumps forget the volumes of the modes",
        "tests/analysis/test_modes.py -k 'probabilities_from_starts and jumping'",
    ),
    # ------------------------------------------------------------------ analysis
    Mutant(
        "analysis/summary.py",
        "scatter / (draws.n_draws - 1)",
        "scatter / draws.n_draws",
        "covariance of nodes by n",
        "tests/analysis/test_summary.py",
    ),
    Mutant(
        "analysis/summary.py",
        "x.T @ x / (len(x) - 1)",
        "x.T @ x / len(x)",
        "covariance of relative poses by n",
        "tests/analysis/test_summary.py",
    ),
    Mutant(
        "analysis/_kernels.py",
        "out[row, 0] = other if math.isnan(other) or other > rhat else rhat",
        "out[row, 0] = rhat",
        "compiled R-hat without distances to the median",
        "tests/analysis/test_diagnostics.py -k compiled",
    ),
    Mutant(
        "analysis/_kernels.py",
        "least = min(least, both)",
        "least = both",
        "compiled autocovariances that need not fall",
        "tests/analysis/test_diagnostics.py -k compiled",
    ),
    # ------------------------------------------------------------------ what is known, and geometry
    Mutant(
        "model/posterior.py",
        'return rotation, 0.5 * np.einsum("ma,mab,mb->m", t',
        'return rotation, np.einsum("ma,mab,mb->m", t',
        "the energy of translations without its ½",
        "tests/numerics/test_kernels.py -k 'derivative_of_the_definition and flat'",
    ),
    Mutant(
        "model/gauge.py",
        "turn = quat.multiply(reference.wxyz[self.anchors], quat.conjugate(wxyz[..., self.anchors, :]))",
        "turn = quat.multiply(reference.wxyz[self.graph.anchors], quat.conjugate(wxyz[..., self.graph.anchors, :]))",
        "the gauge node:ID turns with the anchor",
        "tests/model/test_gauge.py",
    ),
    Mutant(
        "geometry/alignment.py",
        "mean_b - scale * mean_a",
        "mean_b - mean_a",
        "an alignment that scales does not shift right",
        "tests/geometry/test_geometry.py",
    ),
    Mutant(
        "_support/streams.py",
        "(chain << 32) | number",
        "(chain << 8) | number",
        "chains of more than 256 draws share random numbers",
        "tests/sampling/test_driver.py",
    ),
    Mutant(
        "numerics/chart.py",
        "out[k, 0] = beta * (g0 - a * c0 + b * d0) + c * x",
        "out[k, 0] = beta * (g0 - a * c0 + b * d0)",
        "compiled: a gradient without what the volume adds",
        "tests/numerics/test_chart.py",
    ),
    Mutant(
        "geometry/compiled.py",
        "aw * by - ax * bz + ay * bw + az * bx,",
        "aw * by + ax * bz + ay * bw - az * bx,",
        "compiled: a quaternion product with one row in the other order",
        "tests/numerics/test_kernels.py -k 'derivative_of_the_definition and flat and isotropic'",
    ),
    # ------------------------------------------------------------------ files
    Mutant(
        "io/tum.py",
        "rows.values[:, [7, 4, 5, 6]]",
        "rows.values[:, [4, 5, 6, 7]]",
        "TUM quaternions read as wxyz",
        "tests/contract/test_formats.py",
    ),
    Mutant(
        "io/g2o/lines.py",
        "values[:, [6, 3, 4, 5]], values[:, :3]",
        "values[:, [3, 4, 5, 6]], values[:, :3]",
        "g2o quaternions read as wxyz",
        "tests/contract/test_formats.py",
    ),
    # ------------------------------------------------------------------ optimum, continued
    Mutant(
        "optimum/laplace.py",
        "sigma = self._selected[0] / self.beta",
        "sigma = self._selected[0]",
        "marginal covariances forget β",
        "tests/optimum/test_newton.py",
    ),
    Mutant(
        "sampling/choice.py",
        'self._metropolis(settings["step"], settings["steps"])',
        'self._metropolis(self.tuning.step, settings["steps"])',
        "a continued run has another step than it records",
        "tests/contract/test_samplers.py -k 'settings and geodesic'",
    ),
    # ------------------------------------------------------------------ analysis, continued
    Mutant(
        "analysis/diagnostics.py",
        "tau = -1.0 + 2.0 *",
        "tau = 1.0 + 2.0 *",
        "effective sample sizes are too small",
        "tests/analysis/test_diagnostics.py",
    ),
    Mutant(
        "analysis/edge_checks.py",
        "0.5 * np.maximum(freedom, 1), 0.5 * z2",
        "0.5 * np.maximum(freedom, 1), z2",
        "p-values of edges are too small",
        "tests/analysis/test_edge_checks.py",
    ),
    Mutant(
        "sfm/uncertainty.py",
        "off.append(0.5 * (a - b))",
        "off.append(a - b)",
        "cameras get error bars twice as long",
        "tests/sfm/test_uncertainty.py -k scatter",
    ),
    # ------------------------------------------------------------------ what a continued solve must share
    Mutant(
        "solver.py",
        "table.start, table.source, table.edge,",
        "table.start, table.source,",
        "a fingerprint without the measurements",
        "tests/test_resume.py",
    ),
    Mutant(
        "solver.py",
        'facts = {k: v for k, v in options.as_dict().items() if k not in ("draws", "gauge", "edge_errors")}',
        'facts = {"seed": options.seed}',
        "a fingerprint with the seed as its only option",
        "tests/test_resume.py",
    ),
    # ------------------------------------------------------------------ files and frames of other software, and the surveyor
    Mutant(
        "model/conventions.py",
        "J[:, :3, :3], J[:, 3:, 3:] = -0.5 * Rt, -Rt",
        "J[:, :3, :3], J[:, 3:, 3:] = -Rt, -Rt",
        "covariances for COLMAP in whole angles",
        "tests/model/test_conventions.py",
    ),
    Mutant(
        "analysis/trajectories.py",
        "    shifted = times + offset",
        "    shifted = times - offset",
        "an offset between clocks is taken the other way round",
        "tests/analysis/test_trajectories.py -k table",
    ),
    Mutant(
        "io/open3d.py",
        "matrix = np.swapaxes(given.reshape(-1, 4, 4), 1, 2)",
        "matrix = given.reshape(-1, 4, 4)",
        "matrices of Open3D by rows",
        "tests/contract/test_formats.py -k open3d",
    ),
    Mutant(
        "io/toro.py",
        "_PLANE = ((3, 3), (3, 4), (4, 4), (2, 2), (3, 2), (4, 2))",
        "_PLANE = ((3, 3), (3, 4), (3, 2), (4, 4), (4, 2), (2, 2))",
        "planar information of TORO written by rows",
        "tests/io/test_graph_files.py -k toro",
    ),
    Mutant(
        "io/pyfg.py",
        "np.array([3, 4, 5, 0, 1, 2] if e == 6 else [2, 0, 1])",
        "np.array([0, 1, 2, 3, 4, 5] if e == 6 else [2, 0, 1])",
        "covariances of PyFactorGraph with the rotation first",
        "tests/io/test_graph_files.py -k pyfg",
    ),
    Mutant(
        "analysis/reliability.py",
        "    M = np.swapaxes(A, 1, 2) @ N @ A",
        "    M = np.swapaxes(A, 1, 2) @ A",
        "minimal detectable errors as if nothing were used up",
        "tests/analysis/test_reliability.py -k 'hand or textbooks'",
    ),
    Mutant(
        "analysis/epochs.py",
        "if not p[worst] * len(alive) < level:",
        "if not p[worst] < level:",
        "a level of every node for itself",
        "tests/analysis/test_epochs.py -k 'level'",
    ),
    Mutant(
        "analysis/planning.py",
        "np.linalg.solve(np.eye(6) + extra.information[k] @ taken, extra.information[k])",
        "extra.information[k]",
        "gains of a plan as if every candidate were the first measurement",
        "tests/analysis/test_planning.py -k gains",
    ),
]


def misfits() -> list[str]:
    """Rows of the table that no longer fit the source, in one line each."""
    found = []
    for one in MUTANTS:
        path = PACKAGE / one.file
        count = path.read_text().count(one.old) if path.is_file() else 0
        if count != 1:
            found.append(f"{one.file}: {one.old!r} occurs {count} times, expected once ({one.why})")
    return found


def first_failure(tests: str, one: Mutant | None = None) -> str | None:
    """Name of the first test that fails with a mutation, or on the package as it is; ``None`` if all pass."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "src" / "tempose"
        # compiled kernels belong to the time stamp of their file, which copy2 keeps: only those of the changed file are made anew
        shutil.copytree(PACKAGE, copy, copy_function=shutil.copy2)
        if one is not None:
            mutate(copy, one)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0" if tests else "2"]
        env = {**os.environ, "PYTHONPATH": str(copy.parent)}
        run = subprocess.run(
            [*command, *shlex.split(tests)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
    if run.returncode not in (0, 1):
        raise SystemExit(f"pytest did not run {tests}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    failed = [line.split("::")[-1].split(" - ")[0] for line in run.stdout.splitlines() if line.startswith("FAILED")]
    return None if run.returncode == 0 else (failed or ["an error"])[0]


def mutate(package: Path, one: Mutant) -> None:
    """Make the change in a copy of the package."""
    changed = package / one.file
    text = changed.read_text()
    if text.count(one.old) != 1:
        raise SystemExit(f"{one.file} has changed while this ran: {one.old!r} is no longer there once ({one.why})")
    changed.write_text(text.replace(one.old, one.new))
    if "_support.compiling" in text:  # other modules' compiled kernels may hold a copy of what is in this file
        for stale in package.rglob("*.nb[ic]"):
            stale.unlink()


def main() -> int:
    """Run the table; print what was killed and by which test, what survived, and the kill rate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("words", nargs="*", help="only rows whose file or reason has one of these words")
    parser.add_argument("--all", action="store_true", help="run all quick tests for each, not only those of its row")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    arguments = parser.parse_args()
    if problems := misfits():
        print("the table does not fit the source:", *problems, sep="\n  ", file=sys.stderr)
        return 2
    chosen = [m for m in MUTANTS if not arguments.words or any(w in f"{m.file} {m.why}" for w in arguments.words)]
    if arguments.list:
        print(*(f"{m.file}: {m.why}\n    {m.old}\n  → {m.new}" for m in chosen), sep="\n")
        return 0
    which = {one: "" if arguments.all else one.tests for one in chosen}
    for tests in dict.fromkeys(which.values()):
        if (broken := first_failure(tests)) is not None:
            raise SystemExit(f"{broken} fails without any mutation: {tests or 'all quick tests'}")
    print("on the package as it is all of these tests pass", flush=True)
    survivors = 0
    for number, (one, tests) in enumerate(which.items(), 1):
        killer = first_failure(tests, one)
        survivors += killer is None
        verdict = "SURVIVED" if killer is None else f"killed by {killer}"
        print(f"{number:3d}/{len(chosen)}  {one.file}: {one.why}: {verdict}", flush=True)
    print(f"kill rate {len(chosen) - survivors} of {len(chosen)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
