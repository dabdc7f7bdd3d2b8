"""``tempose calibrate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_open, add_workers
from tempose.cli.flags import add_options, count_or_share, solve_options
from tempose.options import SolveOptions

if TYPE_CHECKING:
    from tempose.studies.calibration import Setting

_SIMULATED = (
    "nodes", "sigma_rot_deg", "sigma_trans", "completeness", "planar", "correlated", "gps", "landmarks", "anisotropy",
    "rotation_only",
)  # fmt: skip


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose calibrate``."""
    parser = add_command(
        commands,
        "calibrate",
        summary,
        run,
        """
        tempose calibrate --nodes 8 --sigma-rot-deg 10 --graphs 100 -o calibration
        tempose calibrate --settings all --graphs 150 -o calibration
        tempose calibrate --settings all --graphs 1000 --cluster tcp://head:8786 -o calibration
        tempose calibrate --settings planar,planar-lifted --graphs 150 -o plane
        tempose calibrate --nodes 8 --sigma-rot-deg 2 --scheme boa --scheme-noise paper -o printed
        """,
        usage="-o DIR [options]",
        has_rare=True,
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="directory to write; a run that was stopped there is continued"
    )
    parser.add_argument("--list", action="store_true", help="say which named settings there are, and exit")
    parser.add_argument("--graphs", type=int, default=150, metavar="N", help="graphs per setting (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same graphs and same draws (default 0)")
    add_open(parser)
    add_workers(parser)
    group = parser.add_argument_group("what to simulate")
    group.add_argument(
        "--settings",
        metavar="A,B,...",
        help="named settings, or all but controls (default, unless one is described below)",
    )
    group.add_argument("--nodes", type=int, help="number of poses (default 8)")
    group.add_argument("--sigma-rot-deg", type=float, metavar="DEG", help="rotation noise per axis (default 3)")
    group.add_argument("--sigma-trans", type=float, metavar="LENGTH", help="translation noise per axis (default 0.05)")
    group.add_argument("--completeness", type=float, help="share of the pairs that are measured (default 0.5)")
    group.add_argument("--planar", action="store_true", default=None, help="poses in the plane")
    group.add_argument(
        "--gps-nodes",
        dest="gps",
        type=count_or_share,
        metavar="N",
        help="poses with a fix: a number, or a share below 1",
    )
    group.add_argument("--landmarks", type=int, metavar="N", help="points seen from poses (default 0)")
    group.add_argument(
        "--correlated",
        nargs="?",
        const="registration",
        choices=["registration", "random"],
        help="correlated errors of rotation and translation, as of scans (default) or at random",
    )
    parser.rare += [
        group.add_argument(
            "--anisotropy", type=float, metavar="RATIO", help="largest to smallest noise of an edge (default 1)"
        ),
        group.add_argument("--rotation-only", type=float, metavar="SHARE", help="of the loop edges (default 0)"),
        group.add_argument(
            "--priors", type=_two_numbers, metavar="DEG,LENGTH", help="sigmas of priors on every pose (default: flat)"
        ),
    ]
    texts = {
        "chains": "chains per graph (default 2)",
        "beta": "inverse temperature of the draws: any but 1 is wrong, and must be found out",
    }
    add_options(parser, {"chains": "how to fit, as in tempose solve"}, ("chains", "beta", "sampler"), texts)


def _two_numbers(text: str) -> tuple[float, float]:
    """``50,1`` as (50, 1)."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected DEG,LENGTH, for instance 50,1, not {text!r}") from None
    return first, second


def run(arguments: argparse.Namespace) -> int:
    """Simulate graphs from the model, fit each, test the ranks of the truth."""
    from tempose._support.cluster import workers
    from tempose.errors import Interrupted, OptionError
    from tempose.report.study_pages import write_calibration_page
    from tempose.studies.calibration import CONTROLS, SETTINGS, calibrate
    from tempose.studies.calibration.figure import draw_calibration
    from tempose.studies.calibration.harness import CHAINS
    from tempose.studies.runner import NO_FIGURE, drawn_if_possible

    if arguments.list:
        known = {**SETTINGS, **CONTROLS}
        console.table(arguments, [(name, setting.words()) for name, setting in known.items()])
        console.emit(arguments, {name: setting.facts() for name, setting in known.items()})
        return 0
    if arguments.output is None:
        raise OptionError("give a directory to write to: -o DIR (or --list to see the settings)")
    settings = _settings(arguments)
    options = solve_options(arguments, SolveOptions(chains=CHAINS))
    console.say(arguments, *(f"{setting.name}: {setting.words()}" for setting in settings))
    try:
        with workers(arguments.cluster) as executor, console.progress_bar(arguments) as progress:
            result = calibrate(
                settings,
                graphs=arguments.graphs,
                options=options,
                seed=arguments.seed,
                jobs=arguments.jobs,
                executor=executor,
                directory=arguments.output,
                progress=progress,
            )
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: what is finished is kept in {arguments.output}; the same command goes on from there"
        ) from None
    drawn = drawn_if_possible(lambda: draw_calibration(result, Path(arguments.output)))
    written = result.save(arguments.output) + (drawn or [])
    written.append(write_calibration_page(Path(arguments.output) / "report.html", result))
    console.say(arguments, result.table(), result.verdict)
    if result.correlated:
        console.notice(
            arguments, f"of the graphs, {result.correlated} mixed so slowly that the draws ranked are still correlated"
        )
    console.say(arguments, f"written to {', '.join(map(str, written))}")
    if drawn is None:
        console.notice(arguments, NO_FIGURE)
    console.emit(arguments, result.facts())
    console.open_page(arguments, Path(arguments.output) / "report.html")
    return 0


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    """The named settings, and the one that the options describe; all named ones if nothing is said."""
    from tempose.errors import OptionError
    from tempose.studies.calibration import CONTROLS, SETTINGS, Setting

    custom = {name: value for name in _SIMULATED if (value := getattr(arguments, name)) is not None}
    if arguments.priors is not None:
        custom["prior_sigma_rot_deg"], custom["prior_sigma_trans"] = arguments.priors
    described = [Setting("custom", **custom)] if custom else []
    named = arguments.settings or ("" if custom else "all")
    names = list(SETTINGS) if named == "all" else [name.strip() for name in named.split(",") if name.strip()]
    known = {**SETTINGS, **CONTROLS}
    for name in names:
        if name not in known:
            raise OptionError(f"unknown setting {name!r}: choose all, or from {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] + described
