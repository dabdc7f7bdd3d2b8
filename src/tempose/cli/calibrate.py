"""``tempose calibrate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli import console

if TYPE_CHECKING:
    from tempose.studies.calibration import Setting

_CUSTOM = {
    "nodes": "nodes", "noise": "sigma_rot_deg", "sigma_trans": "sigma_trans", "completeness": "completeness",
    "anisotropy": "anisotropy", "rotation_only": "rotation_only",
}  # fmt: skip
_FIT = ("sampler", "chains", "scheme", "scheme_noise", "step", "friction", "beta")


def run(arguments: argparse.Namespace) -> int:
    """Simulate graphs from the model, fit each, test the ranks of the truth."""
    from tempose._support.progress import Progress
    from tempose.cli.solve import nested_options
    from tempose.errors import OptionError, TemposeError
    from tempose.studies.calibration import SETTINGS, calibrate
    from tempose.studies.calibration.figure import draw_calibration
    from tempose.studies.calibration.harness import CHAINS

    if arguments.list:
        console.table(arguments, [(name, setting.words()) for name, setting in SETTINGS.items()])
        console.emit(arguments, {name: setting.facts() for name, setting in SETTINGS.items()})
        return 0
    if arguments.output is None:
        raise OptionError("give a directory to write to: -o DIR (or --list to see the settings)")
    settings = _settings(arguments)
    given = {name: value for name in _FIT if (value := getattr(arguments, name)) is not None}
    options = nested_options("default", {"chains": CHAINS, **given})
    console.say(arguments, *(f"{setting.name}: {setting.words()}" for setting in settings))
    try:
        with console.progress_bar(arguments) as progress:
            result = calibrate(
                settings, graphs=arguments.graphs, options=options, seed=arguments.seed, jobs=arguments.jobs,
                directory=arguments.output, on_graph=lambda done, total: progress(Progress("calibrating", done, total)),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise TemposeError(
            f"interrupted: what is finished is kept in {arguments.output}; the same command goes on from there"
        ) from None
    written = result.save(arguments.output) + draw_calibration(result, Path(arguments.output))
    console.say(arguments, result.table(), result.verdict)
    if result.correlated:
        console.notice(
            arguments, f"{result.correlated} graph(s) mix so slowly that the draws ranked are still correlated"
        )
    console.say(arguments, f"written to {', '.join(map(str, written))}")
    if not any(path.suffix == ".png" for path in written):
        console.notice(arguments, "no figure: it needs matplotlib (pip install 'tempose[plot]')")
    console.emit(arguments, result.facts())
    return 0


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    """The named settings, and the one that the options describe; all named ones if nothing is said."""
    from tempose.errors import OptionError
    from tempose.studies.calibration import SETTINGS, Setting

    custom = {new: value for old, new in _CUSTOM.items() if (value := getattr(arguments, old)) is not None}
    if arguments.priors is not None:
        custom["prior_sigma_rot_deg"], custom["prior_sigma_trans"] = arguments.priors
    described = [Setting("custom", **custom)] if custom else []
    named = arguments.settings or ("" if custom else "all")
    names = list(SETTINGS) if named == "all" else [name.strip() for name in named.split(",") if name.strip()]
    for name in names:
        if name not in SETTINGS:
            raise OptionError(f"unknown setting {name!r}: choose all, or from {', '.join(SETTINGS)}")
    return [SETTINGS[name] for name in dict.fromkeys(names)] + described
