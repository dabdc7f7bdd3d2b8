"""Arguments of every command. Imports nothing heavy, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from importlib import import_module

Command = Callable[[argparse.Namespace], int]


def _lazily(module: str) -> Command:
    """The ``run`` of a command's module, imported when it is called."""

    def run(arguments: argparse.Namespace) -> int:
        return int(import_module(f"tempose.cli.{module}").run(arguments))

    return run


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``tempose``."""
    parser = argparse.ArgumentParser(
        prog="tempose",
        description="The posterior of a pose graph: best poses, and honest error bars on every one of them.",
        epilog="Try 'tempose demo', or 'tempose COMMAND --help'.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _demo(commands)
    _info(commands)
    _simulate(commands)
    _solve(commands)
    _eval(commands)
    _compare(commands)
    _experiment(commands)
    _calibrate(commands)
    _convert(commands)
    _sfm(commands)
    _view(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"tempose {metadata.version('tempose')}")
        parser.exit()


Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add(commands: Commands, name: str, summary: str, example: str) -> argparse.ArgumentParser:  # type: ignore[valid-type]
    parser = commands.add_parser(  # type: ignore[attr-defined]
        name,
        help=summary.replace("%", "%%"),  # argparse formats it
        description=summary[0].upper() + summary[1:] + ".",
        epilog="example:\n" + textwrap.indent(textwrap.dedent(example).strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_lazily(name))
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser  # type: ignore[no-any-return]


def _reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading the graph")
    group.add_argument(
        "--precision", choices=["isotropic", "full"], default="isotropic",
        help="one concentration and one variance per edge (default, the paper's model), or the full 3x3 blocks of the file",
    )  # fmt: skip
    group.add_argument(
        "--rotation-information", choices=["rotation-vector", "quaternion-vector"], default="rotation-vector",
        help="what a g2o rotation block is the inverse covariance of: the rotation vector (default; GTSAM, SE-Sync) or the "
        "quaternion's vector part (g2o itself), which is four times less precise",
    )  # fmt: skip
    group.add_argument(
        "--sigma-rot-deg", type=float, metavar="DEG", help="rotation noise per axis, for files that do not give it"
    )
    group.add_argument(
        "--sigma-trans", type=float, metavar="LENGTH", help="translation noise per axis, for files that do not give it"
    )
    group.add_argument(
        "--format", help="format of the file, if its name does not tell: g2o, csv, 3dmatch, epfl-rotations, 1dsfm"
    )


def _demo(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(commands, "demo", "solve a bundled example and write its report", "tempose demo -o demo")
    parser.add_argument(
        "-o", "--output", default="tempose-demo", metavar="DIR", help="directory to write (default: tempose-demo)"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same draws (default 0)")


def _info(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(commands, "info", "say what is in a graph file, before solving it", "tempose info graph.g2o")
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        help="graph: a file (g2o, csv, 3DMatch log, EPFL rotations) or a folder (1DSfM, 3DMatch)",
    )
    _reading(parser)


def _simulate(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "simulate", "write a synthetic graph and its truth",
        "tempose simulate --nodes 50 --completeness 0.5 --sigma-rot-deg 3 --sigma-trans 0.05 --seed 1 -o g.g2o",
    )  # fmt: skip
    parser.add_argument("--nodes", type=int, default=50, help="number of poses (default 50)")
    parser.add_argument(
        "--shape",
        default="random",
        choices=["random", "sphere", "torus", "grid", "trajectory"],
        help="kind of graph (default: random, the paper's)",
    )
    parser.add_argument(
        "--completeness", type=float, default=0.5, help="share of the possible edges that are measured (default 0.5)"
    )
    parser.add_argument(
        "--sigma-rot-deg", type=float, default=3.0, metavar="DEG", help="rotation noise per axis (default 3)"
    )
    parser.add_argument(
        "--sigma-trans", type=float, default=0.05, metavar="LENGTH", help="translation noise per axis (default 0.05)"
    )
    parser.add_argument(
        "--wrong-edges", type=float, default=0.0, metavar="SHARE",
        help="share of measurements that are replaced by any rotation and translation (default 0)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="same seed, same graph (default 0)")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="graph to write; the truth goes to FILE with .truth before its ending",
    )


def _phases(text: str) -> tuple[tuple[float, int], ...]:
    """``1:200,10:200`` as ((1, 200), (10, 200))."""
    try:
        return tuple((float(beta), int(steps)) for beta, steps in (part.split(":") for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected BETA:STEPS[,BETA:STEPS…], for instance 1:200,10:200, not {text!r}"
        ) from None


def _solve(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "solve", "compute poses, error bars and a report from a graph",
        """
        tempose solve graph.g2o -o result
        tempose solve graph.g2o -o result --draws 2000 --gauge centroid --seed 7
        tempose solve graph.g2o -o result --robust --noise auto
        tempose solve graph.g2o -o paper --preset paper
        """,
    )  # fmt: skip
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        help="graph: a file (g2o, csv, 3DMatch log, EPFL rotations) or a folder (1DSfM, 3DMatch)",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        help="directory to write; a run that was stopped there is continued",
    )
    parser.add_argument("--overwrite", action="store_true", help="discard what another run left in DIR")
    parser.add_argument("--truth", metavar="FILE", help="true poses, to show errors in the report")
    parser.add_argument("--no-report", action="store_true", help="do not write report.html")
    parser.add_argument("--seed", type=int, help="same seed, same draws (default 0)")
    parser.add_argument(
        "--gauge",
        help="what uncertainties refer to: anchor (default: the FIXed or first node), centroid, free, or node:ID",
    )
    parser.add_argument(
        "--preset",
        choices=["default", "paper"],
        default="default",
        help="default: right draws, automatic step; paper: the paper's scheme as printed",
    )
    _reading(parser)
    _robust(parser)
    group = parser.add_argument_group("optimisation")
    group.add_argument(
        "--start", help="where to start: chordal (default), spectral, tree, best-tree, given, identity, random (paper)"
    )
    group.add_argument(
        "--starts", type=int, metavar="N", help="look for other modes from N - 1 random starts (default 1: do not)"
    )
    group.add_argument(
        "--optimiser", choices=["newton", "tg-mcmc", "both"],
        help="newton (default): second order; tg-mcmc (paper): its sampler at beta -> infinity; both: one after the other",
    )  # fmt: skip
    group.add_argument(
        "--no-certify", dest="certify", action="store_false", default=None, help="do not try to prove global optimality"
    )
    group.add_argument("--optimise-steps", type=int, metavar="N", help="most TG-MCMC steps at beta -> infinity")
    group.add_argument(
        "--anneal", type=_phases, metavar="B:N,...", help="phases of N steps at rising beta B before that"
    )
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--draws", type=int, help="draws to keep, all chains together (default 1000; paper: 40; 0: none)"
    )
    group.add_argument("--chains", type=int, help="independent chains (default 4; paper: 1)")
    group.add_argument(
        "--beta", type=float, help="inverse temperature of the draws (default 1, the posterior; paper: 1000)"
    )
    group.add_argument(
        "--sampler",
        choices=[
            "auto", "collapsed", "geodesic-mh", "baoab-mh", "aboba-mh", "boa-mh", "tempering", "jumping", "geodesic"
        ],
        help="auto (default): the fastest exact one for the problem; tempering, jumping: go between separate modes; "
        "geodesic (paper): the splitting schemes without a test",
    )  # fmt: skip
    group.add_argument("--scheme", help="order of the steps: baoab (default), boa (paper), aboba, ...")
    group.add_argument(
        "--scheme-noise",
        choices=["exact", "euler", "paper"],
        help="exact Ornstein-Uhlenbeck step (default), or as printed in the paper (paper), or with its missing sqrt(h) (euler)",
    )
    group.add_argument(
        "--letters",
        choices=["paper", "langevin"],
        help="meaning of the scheme's letters (default: the paper's for boa)",
    )
    group.add_argument("--step", type=float, metavar="H", help="step size (default: found automatically)")
    group.add_argument(
        "--friction", type=float, metavar="C", help="friction (default: found automatically; paper: 1000)"
    )
    group.add_argument("--thin", type=int, help="steps between kept draws (default: found automatically)")
    group.add_argument("--warmup", type=int, help="steps before the first draw (default: twice --thin)")
    group.add_argument("--batch", type=int, help="edges per stochastic gradient (default: all)")


def _tail(text: str) -> float | str:
    """``auto``, ``gaussian`` or a number."""
    if text in ("auto", "gaussian"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto, gaussian or a positive number, not {text!r}") from None


def _robust(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("wrong edges and unknown noise")
    group.add_argument(
        "--robust", action="store_true", default=None,
        help="expect wrong edges: the posterior says which they are, and the poses survive them",
    )  # fmt: skip
    group.add_argument(
        "--noise", choices=["given", "auto"],
        help="given (default): the file's noise levels (or --sigma-rot-deg, --sigma-trans) hold; auto: they are estimated",
    )  # fmt: skip
    group.add_argument(
        "--inlier-probability", type=float, metavar="P",
        help="prior probability that an edge is right, where the file gives none (default: estimated)",
    )  # fmt: skip
    group.add_argument(
        "--tail", type=_tail, metavar="NU",
        help="of the right edges: auto (default: chosen by the likelihood), gaussian, or nu of a heavy tail",
    )  # fmt: skip
    group.add_argument(
        "--trust-odometry", type=float, nargs="?", const=0.99, metavar="P",
        help="edges between consecutive ids are right with prior probability P (0.99 if not given)",
    )  # fmt: skip


def _eval(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "eval", "compare poses with the truth, after alignment", "tempose eval result g.truth.g2o --json"
    )
    parser.add_argument(
        "estimate", metavar="EST", help="estimated poses: a file (g2o, tum, csv) or the directory of a solve"
    )
    parser.add_argument("truth", metavar="TRUTH", help="true poses (g2o, tum, csv, or a data set that has them)")
    parser.add_argument(
        "--graph",
        metavar="FILE",
        help="graph to compute the consistency with (default: the solve's, or EST if it has edges)",
    )
    parser.add_argument(
        "--alignment", default="se3", choices=["se3", "sim3", "positions-se3", "positions-sim3"],
        help="se3 (default) and sim3 take the rotation from the orientations; positions-* from the positions alone",
    )  # fmt: skip
    parser.add_argument(
        "--robust", action="store_true", help="align in the L1 sense, so that a few wrong poses do not drag the rest"
    )


def _compare(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "compare", "run the classical synchronisation methods on a graph, side by side",
        """
        tempose compare graph.g2o --truth graph.truth.g2o
        tempose compare graph.g2o --methods chordal,eig-se3,tempose -o comparison
        tempose compare --list
        """,
    )  # fmt: skip
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        nargs="?",
        help="graph: a file (g2o, csv, 3DMatch log, EPFL rotations) or a folder (1DSfM, 3DMatch)",
    )
    parser.add_argument("--list", action="store_true", help="say which methods there are, and exit")
    parser.add_argument(
        "--truth", metavar="FILE", help="true poses (g2o, tum, csv, or a data set that has them), to show errors"
    )
    parser.add_argument("--methods", metavar="A,B,...", help="methods to run (default: all; see --list)")
    parser.add_argument(
        "--alignment", default="se3", choices=["se3", "sim3", "positions-se3", "positions-sim3"],
        help="se3 (default) and sim3 take the rotation from the orientations; positions-* from the positions alone",
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="directory for table.json, table.csv, poses/METHOD.csv and, with matplotlib, compare.png",
    )
    _reading(parser)


def _experiment(commands: Commands) -> None:  # type: ignore[valid-type]
    from tempose.studies.registry import EXPERIMENTS

    parser = commands.add_parser(  # type: ignore[attr-defined]
        "experiment", help="reproduce a figure or table of the paper",
        description="Reproduce a figure or table of the paper.",
        epilog="example:\n  tempose experiment noise --quick -o noise\n  tempose experiment noise --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, entry in EXPERIMENTS.items():
        _one_experiment(names, name, entry.summary, entry.paper)
    _one_experiment(names, "all", "all of them, each in a directory of its own", "All figures and tables.")


def _one_experiment(names: Commands, name: str, summary: str, paper: str) -> None:  # type: ignore[valid-type]
    parser = _add(names, name, summary, f"tempose experiment {name} --quick -o {name}")
    parser.description = f"{summary[0].upper()}{summary[1:]}.\n\nIn the paper: " + textwrap.fill(paper, 100)
    parser.set_defaults(run=_lazily("experiment"), name=name)
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR",
        help="directory for table.json, table.csv, figure.png and the finished cells; a run that was stopped is continued",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small version, in seconds")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="random problems per setting (default: the experiment's)"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first of them; same seed, same numbers (default 0)")
    parser.add_argument(
        "--methods", metavar="A,B,...", help="methods to compare (default: all; see tempose compare --list)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")


def _two_numbers(text: str) -> tuple[float, float]:
    """``50,1`` as (50, 1)."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected DEG,LENGTH, for instance 50,1, not {text!r}") from None
    return first, second


def _calibrate(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "calibrate", "show whether the draws can be trusted, on graphs whose truth is known",
        """
        tempose calibrate --nodes 8 --noise 10 --graphs 100 -o calibration
        tempose calibrate --settings all --graphs 150 -o calibration
        tempose calibrate --nodes 8 --noise 2 --sampler geodesic --scheme boa --scheme-noise paper -o printed
        """,
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="directory to write; a run that was stopped there is continued"
    )
    parser.add_argument("--list", action="store_true", help="say which named settings there are, and exit")
    parser.add_argument("--graphs", type=int, default=150, metavar="N", help="graphs per setting (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same graphs and same draws (default 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    group = parser.add_argument_group("what to simulate")
    group.add_argument(
        "--settings", metavar="A,B,...", help="named settings, or all (default, unless one is described below)"
    )
    group.add_argument("--nodes", type=int, help="number of poses (default 8)")
    group.add_argument("--noise", type=float, metavar="DEG", help="rotation noise per axis (default 3)")
    group.add_argument("--sigma-trans", type=float, metavar="LENGTH", help="translation noise per axis (default 0.05)")
    group.add_argument("--completeness", type=float, help="share of the pairs that are measured (default 0.5)")
    group.add_argument(
        "--anisotropy", type=float, metavar="RATIO", help="largest to smallest noise of an edge (default 1)"
    )
    group.add_argument("--rotation-only", type=float, metavar="SHARE", help="of the loop edges (default 0)")
    group.add_argument(
        "--priors", type=_two_numbers, metavar="DEG,LENGTH", help="sigmas of priors on every pose (default: flat)"
    )
    group = parser.add_argument_group("how to fit")
    group.add_argument(
        "--sampler",
        choices=["auto", "collapsed", "geodesic-mh", "baoab-mh", "aboba-mh", "boa-mh", "geodesic"],
        help="as in tempose solve",
    )
    group.add_argument("--chains", type=int, help="chains per graph (default 2)")
    group.add_argument("--scheme", help="as in tempose solve: baoab, boa (paper), ...")
    group.add_argument("--scheme-noise", choices=["exact", "euler", "paper"], help="as in tempose solve")
    group.add_argument("--step", type=float, metavar="H", help="as in tempose solve")
    group.add_argument("--friction", type=float, metavar="C", help="as in tempose solve")
    group.add_argument(
        "--beta", type=float, help="inverse temperature of the draws: any but 1 is wrong, and must be found out"
    )


def _convert(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands,
        "convert",
        "convert a graph, or poses, from one format to another",
        "tempose convert graph.g2o graph.csv",
    )
    parser.add_argument("input", metavar="IN", help="file to read (g2o, csv, tum, 3DMatch log)")
    parser.add_argument("output", metavar="OUT", help="file to write (g2o, csv, tum)")
    parser.add_argument("--poses", action="store_true", help="convert the poses of IN and drop its edges")
    _reading(parser)


def _sfm(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "sfm", "from photographs, or a COLMAP database or model, to cameras and points with error bars",
        """
        tempose sfm photographs -o castle --intrinsics K.txt
        tempose sfm database.db -o castle --images photographs
        """,
    )  # fmt: skip
    parser.add_argument(
        "source", metavar="SOURCE", help="folder of photographs, COLMAP database, or folder of a COLMAP model"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR",
        help="directory to write; features and matches found there are used again",
    )  # fmt: skip
    parser.add_argument(
        "--overwrite", action="store_true", help="find features and matches anew, although DIR has them"
    )
    parser.add_argument(
        "--intrinsics", metavar="FILE",
        help="calibration: nine numbers of K (pixel centres at whole numbers) or a COLMAP cameras.txt; default: found from "
        "EXIF and the pairs",
    )  # fmt: skip
    parser.add_argument(
        "--calibration-error", type=float, metavar="E",
        help="1σ of the calibration, relative to the focal length (of focal length, principal point and distortion); "
        "default 0.001, or 0.005 for one that is guessed; 0: perfect",
    )  # fmt: skip
    parser.add_argument("--images", metavar="DIR", help="photographs, to colour the points of a database or model")
    parser.add_argument(
        "--truth", metavar="PATH", help="true camera poses: folder of EPFL .camera files, or a pose file"
    )
    parser.add_argument(
        "--scales", choices=["tracks", "truth"], default="tracks",
        help="lengths of baselines: from points that pairs share (default), or from --truth (the paper's protocol)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=3, help="guided rounds of choosing each pair's matches (default 3)"
    )
    parser.add_argument(
        "--draws", type=int, default=40, help="posterior draws the points are made again for (default 40)"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result (default 0)")


def _view(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(
        commands, "view", "show a reconstruction in the browser, served from this machine only", "tempose view castle"
    )
    parser.add_argument("directory", metavar="DIR", help="directory written by 'tempose sfm'")
    parser.add_argument("--port", type=int, default=8080, help="port on 127.0.0.1 (default 8080, or the next free one)")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser, print the address")
    parser.add_argument("--seconds", type=float, help="stop after this time (default: at Ctrl-C)")
