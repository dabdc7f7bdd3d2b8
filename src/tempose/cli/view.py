"""``tempose view``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tempose.cli import console
from tempose.cli.commands import Commands, add_command


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose view``."""
    parser = add_command(
        commands,
        "view",
        summary,
        run,
        "tempose view castle",
    )
    parser.add_argument("directory", metavar="DIR", help="directory written by 'tempose sfm'")
    parser.add_argument("--port", type=int, default=8080, help="port on 127.0.0.1 (default 8080, or the next free one)")
    parser.add_argument(
        "--colours", choices=["viridis", "jet"], default="viridis", help="of σ (default viridis; jet is the paper's)"
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the browser, print the address")
    parser.add_argument("--seconds", type=float, help="stop after this time (default: at Ctrl-C)")


def run(arguments: argparse.Namespace) -> int:
    """Show a reconstruction in the browser until interrupted."""
    from tempose.errors import ParseError
    from tempose.report.live import serve
    from tempose.sfm.files import SCENE, load_scene

    home = Path(arguments.directory)
    if home.is_file() and home.suffix != ".npz":
        raise ParseError(home, None, "a file; give the directory that 'tempose sfm' wrote")
    if not (home / SCENE).is_file() and (home / "report.html").is_file():
        raise ParseError(
            home, None, "no reconstruction of photographs, which is what view shows; look at its report.html"
        )
    scene = load_scene(home)
    viewer = serve(scene, arguments.port, arguments.colours)
    address = viewer.address
    console.table(
        arguments,
        [("cameras", str(len(scene.poses))), ("points", str(int(scene.structure.good.sum()))), ("viewer", address)],
    )
    console.emit(arguments, {"address": address})
    if not arguments.no_open:
        import webbrowser

        webbrowser.open(address)
    try:
        deadline = float("inf") if arguments.seconds is None else time.monotonic() + arguments.seconds
        while time.monotonic() < deadline:
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass
    viewer.stop()
    return 0
