"""One-line mutations of the package, and whether the tests notice: ``python .ci/mutants.py [WORDS …] [--all] [--list]``.

Each row of the table changes one place of the source to something plausible and wrong. The package is copied to a
temporary folder, the change is made there, and the tests named in the row run against the copy; with ``--all`` all quick
tests do. A mutant is killed if a test fails. What survives is printed with its reason, and the exit status is 1.

The text to be replaced must occur exactly once in its file: a table that no longer fits the source fails loudly, before
anything runs, and ``tests/test_layout.py`` checks it in every run. WORDS choose the rows whose file or reason has one of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
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
        "if handle.tell() < wanted:",
        "if False:",
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


def survives(one: Mutant, everything: bool) -> bool:
    """Whether the tests pass with the mutation."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "src" / "tempose"
        # compiled kernels are keyed by the time stamp of their file, which copy2 keeps; those of the changed file are not used
        shutil.copytree(PACKAGE, copy, copy_function=shutil.copy2)
        changed = copy / one.file
        changed.write_text(changed.read_text().replace(one.old, one.new))
        if inlined(one.file):
            for stale in copy.rglob("*.nb[ic]"):
                stale.unlink()
        tests = [] if everything else split(one.tests)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
        command += ["-n", "2" if everything else "0"]
        env = {**os.environ, "PYTHONPATH": str(copy.parent)}
        run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        raise SystemExit(f"pytest did not run for {one.file} ({one.why}):\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 0


def inlined(file: str) -> bool:
    """Whether other modules' compiled kernels may hold a copy of what is in this file."""
    return "njit" in (PACKAGE / file).read_text() or file.startswith(("numerics/", "geometry/compiled"))


def split(words: str) -> list[str]:
    """Arguments of a command line."""
    import shlex

    return shlex.split(words)


def main() -> int:
    """Run the table; print what was killed, what survived, and the kill rate."""
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
    survivors = 0
    for number, one in enumerate(chosen, 1):
        began = time.monotonic()
        alive = survives(one, arguments.all)
        survivors += alive
        verdict = "SURVIVED" if alive else "killed"
        print(
            f"{number:3d}/{len(chosen)}  {verdict:8s}  {one.file}: {one.why} ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    print(f"kill rate {len(chosen) - survivors} of {len(chosen)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
