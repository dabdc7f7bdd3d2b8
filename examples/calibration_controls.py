"""Which samplers pass simulation-based calibration? The right ones, the paper's, and some that are wrong on purpose.

    python examples/calibration_controls.py --graphs 40

One setting (6 nodes, 3° and 0.05 noise, flat priors), the same graphs for every sampler. "as printed" are the paper's own
numbers, β = 1000 and h = 0.001, which by its missing √h mean β = 1: the best case for it.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from tempose.options import SolveOptions
from tempose.sampling import Geodesic
from tempose.studies.calibration import Setting, calibrate

SETTING = Setting("control", 6, 0.5, 3.0, 0.05)
_PRINTED = Geodesic(scheme="boa", scheme_noise="paper")
_PAPER = replace(_PRINTED, step=0.001, friction=1000.0, coordinates="paper", mass="identity", thin=100)
SAMPLERS = {
    "auto": {},
    "geodesic-mh": {"sampler": "geodesic-mh"},
    "baoab": {"sampler": "geodesic"},
    "boa as printed": {"sampler": _PAPER, "beta": 1000.0},
    "boa as printed, automatic step": {"sampler": _PRINTED},
    "auto at beta = 1.3": {"beta": 1.3},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=40, help="graphs per sampler (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the graphs (default 0)")
    parser.add_argument("--jobs", type=int, help="processes (default: one per core)")
    parser.add_argument("-o", "--output", metavar="DIR", help="keep the runs there, and continue them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(arguments.output or temporary)
        print(f"{'sampler':<32} {'least p':>8}  {'node 50%':>11}  {'node 95%':>11}  worst quantity")
        for name, how in SAMPLERS.items():
            result = calibrate(
                [SETTING], graphs=arguments.graphs, options=SolveOptions(chains=2, **how), seed=arguments.seed,
                jobs=arguments.jobs, directory=home / name.replace(" ", "-"),
            )  # fmt: skip
            worst = result.worst()
            if worst is None:
                parser.exit(1, f"{result.verdict}\n")
            half, most = (str(result.coverage(SETTING.name, "node", level)) for level in (0.5, 0.95))
            told = worst.quantity if result.calibrated else f"{worst.quantity}: {worst.finding}"
            print(f"{name:<32} {worst.corrected:8.1g}  {half:>11}  {most:>11}  {told}", flush=True)


if __name__ == "__main__":
    main()
