"""Frame times of the report's viewer while it is turned, in headless Chromium, one run for all sizes.

    python benchmarks/pages.py [--nodes 300 2500 5000 50000] [--frames 60] [PAGE ...]

Simulated trajectories with loop closures and an error ellipsoid at every node, or the pages that are given. The page is turned by
pointer events, as a hand would. "script" is what the page's own code takes for a frame with everything in it (the page is made to
believe that no time passes, so that it leaves nothing out); "turned" is the time between pictures with the clock as it is, when a
page that cannot keep up leaves things out until it rests, and "drawn" how much it draws then, if it says so. A screen shows at most
60 pictures a second: 16.7 ms. Headless Chromium has no graphics processor, so the page draws by its own code ("canvas"). "webgl"
asks for WebGL all the same, which is then software, too: its script is what counts on a machine with a graphics processor.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.tables import text_table
from tempose.report.page import ReportData, render_page
from tempose.simulation import simulate

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SAID = "frame times "
TURNING = """
<script>
(() => {
  const [frames, ask] = [FRAMES, window.requestAnimationFrame.bind(window)];
  const script = [];
  let spent = 0;
  const clock = performance.now.bind(performance);
  let steady = 1000;
  if (STILL) performance.now = () => steady;
  window.requestAnimationFrame = (call) => ask((now) => {
    const begin = clock();
    call(STILL ? (steady += 1) : now);
    spent += clock() - begin;
  });
  Element.prototype.setPointerCapture = () => {};
  const began = clock();
  const starts = [];
  function turn(now) {
    if (!document.documentElement.dataset.ready) return ask(turn);
    const canvas = document.getElementById("canvas");
    const box = canvas.getBoundingClientRect();
    const send = (name, x) => {
      const begin = clock();
      const at = { clientX: box.left + x, clientY: box.top + box.height / 2 };
      canvas.dispatchEvent(new PointerEvent(name, { ...at, pointerId: 1, buttons: 1, bubbles: true }));
      spent += clock() - begin;
    };
    if (!starts.length) { turn.ready = clock() - began; send("pointerdown", 200); }
    else script.push(spent);
    starts.push(now);
    spent = 0;
    send("pointermove", 200 + 4 * starts.length);
    if (starts.length <= frames) return ask(turn);
    const painter = canvas.parentElement.dataset.painter || "canvas";
    const { drawn } = canvas.parentElement.dataset;
    const { width, height } = box;
    console.log("SAID" + JSON.stringify({ script, starts, ready: turn.ready, painter, drawn, width, height }));
  }
  ask(turn);
})();
</script>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages to measure (default: simulated graphs)")
    parser.add_argument("--nodes", type=int, nargs="*", default=[300, 2500, 5000, 50_000])
    parser.add_argument("--frames", type=int, default=60)
    arguments = parser.parse_args()
    rows = [("page", "MB", "painter", "ready ms", "script ms", "turned ms", "drawn", "view px")]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for page in [Path(page) for page in arguments.pages] or [graph_page(home, n) for n in arguments.nodes]:
            for asked in ("canvas", "webgl"):
                frames = (
                    arguments.frames if asked == "canvas" else max(6, arguments.frames // 6)
                )  # WebGL in software takes seconds
                rows.append(measured(page, asked, frames, home))
                print(*rows[-1], flush=True)
    print(text_table(rows, left=(0, 2)))


def graph_page(home: Path, nodes: int) -> Path:
    """A page of a simulated trajectory."""
    made = simulate(nodes, shape="trajectory", loops_per_node=0.5, seed=1)
    graph, truth = made.graph, made.truth
    rng = np.random.default_rng(nodes)
    m = graph.n_edges
    root = 0.06 * rng.normal(size=(nodes, 3, 3))
    covariance = root @ root.transpose(0, 2, 1)
    data = ReportData(
        title=f"{nodes} nodes",
        node_ids=[str(name) for name in graph.node_ids],
        positions=truth.position,
        world_from_node_wxyz=truth.wxyz,
        component=graph.component,
        sigma_rot_deg=rng.random(nodes),
        sigma_pos=np.sqrt(np.trace(covariance, axis1=1, axis2=2) / 3.0),
        position_covariance=covariance,
        length_unit="m",
        edges=np.stack([graph.edge_i, graph.edge_j], axis=1),
        edge_rotation_deg=np.abs(rng.normal(size=m)),
        edge_translation=np.abs(rng.normal(size=m)),
        edge_surprise=np.abs(rng.normal(size=m)),
    )
    path = home / f"{nodes} nodes.html"
    path.write_text(render_page(data))
    return path


def measured(page: Path, asked: str, frames: int, home: Path) -> tuple[str, ...]:
    """One row of the table."""
    found = {}
    for still in ("true", "false"):
        turned = home / "turned.html"
        script = TURNING.replace("FRAMES", str(frames)).replace("SAID", SAID).replace("STILL", still)
        turned.write_text(page.read_text().replace("<body>", "<body>" + script, 1))
        found[still] = run(f"{turned.as_uri()}#{asked}", home / f"profile-{asked}")
    full, usual = found["true"], found["false"]
    name = page.stem if page.parent == home else page.parent.name
    return (
        name, f"{page.stat().st_size / 1e6:.1f}", usual["painter"], f"{usual['ready']:.0f}",
        f"{np.median(full['script'][frames // 2 :]):.1f}", f"{np.median(np.diff(usual['starts'])):.1f}",
        f"{float(usual['drawn']):.0%}" if "drawn" in usual else "?", f"{usual['width']:.0f}×{usual['height']:.0f}",
    )  # fmt: skip


def run(address: str, profile: Path) -> dict[str, Any]:
    """What the page said about itself."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"this needs one of {', '.join(BROWSERS)}")
    command = [browser, "--headless", "--no-sandbox", "--no-first-run", "--disable-gpu", "--enable-unsafe-swiftshader"]
    command += [
        "--enable-logging=stderr",
        f"--user-data-dir={profile}",
        "--window-size=1400,900",
        "--remote-debugging-port=0",
        address,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if SAID in line:
                text = line.split(SAID, 1)[1].rsplit('", source', 1)[0]
                return json.loads(text.replace('\\"', '"'))
    finally:
        process.kill()
        process.wait()
    raise SystemExit(f"{address}: the page said nothing")


if __name__ == "__main__":
    main()
