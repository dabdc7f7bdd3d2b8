"""Options refuse what makes no sense, at once and in words, and survive a way through JSON."""

from __future__ import annotations

import json
import math

import pytest

from tempose.errors import OptionError
from tempose.optimum import TgMcmc
from tempose.options import SolveOptions
from tempose.outliers import Robust
from tempose.sampling import Auto, Geodesic


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SolveOptions(sampler=Geodesic), "sampler must be an object or a name"),  # type: ignore[arg-type]
        (lambda: SolveOptions(optimiser=5), "optimiser must be an object or a name"),  # type: ignore[arg-type]
        (lambda: SolveOptions(robust=0.9), "robust must be Robust"),  # type: ignore[arg-type]
        (lambda: SolveOptions(draws="10"), "draws must be a whole number"),  # type: ignore[arg-type]
        (lambda: SolveOptions(seed=1.5), "seed must be a whole number"),  # type: ignore[arg-type]
        (lambda: SolveOptions(sampler="nuts"), "unknown sampler 'nuts': choose one of auto, collapsed"),  # type: ignore[arg-type]
        (lambda: Geodesic(step=-1.0), "step must be positive and finite"),
        (lambda: Geodesic(step=0.0), "step must be positive and finite"),
        (lambda: Geodesic(friction=math.nan), "friction must be at least 0 and finite"),
        (lambda: Geodesic(scheme="xyz"), "letters A, B and O"),
        (lambda: TgMcmc(anneal=((math.inf, 10),)), "positive, finite β"),
        (lambda: Auto(thin=0), "at least 1 step apart"),
        (lambda: Robust(inlier_probability=1.5), "inlier probability must be above 0"),
        (lambda: SolveOptions().changed(sampel="auto"), "unknown option sampel"),
        (lambda: SolveOptions.from_dict({"preset": "paper"}), "unknown option preset"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError, match=words):
        make()


@pytest.mark.parametrize(
    "options",
    [
        SolveOptions(),
        SolveOptions(robust=True, noise="auto"),  # type: ignore[arg-type]
        SolveOptions(robust=Robust(tail=math.inf, trust_odometry=0.9)),
        SolveOptions(
            optimiser=TgMcmc(anneal=((1.0, 20), (10.0, 30)), then_newton=True), sampler=Geodesic(scheme="boa")
        ),
    ],
)
def test_options_survive_json(options: SolveOptions) -> None:
    assert SolveOptions.from_dict(json.loads(json.dumps(options.as_dict()))) == options
