"""The report page and the static figure: what a reader sees is what the arrays say."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from helpers.browser import BROWSER, HOSTILE, shown
from tempose.errors import ArgumentError, FileError, GraphError, MissingPackage, OptionError
from tempose.report import page
from tempose.report import widgets as parts
from tempose.report.explanation_cards import ExplanationCard, Explanations
from tempose.report.page import ReportData, Trace, Variant, render_page, write_page
from tempose.report.plots import fitting_factor, plot_graph, save_picture
from tempose.report.widgets import Fact, Histogram

EVIL = ['</script><script>document.title="hit"</script>', "\"quoted\" & 'single'", "<!--", "日本 é\u2028", "{{title}}"]


def make_data(n: int = 12, *, seed: int = 0, sigmas: bool = True, **changes) -> ReportData:
    """A closed loop of n poses with chords; node 0 is the gauge (zero covariance)."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n) / n
    positions = np.stack([4 * np.cos(angle), 4 * np.sin(angle), 0.2 * np.sin(2 * angle)], axis=1)
    edges = np.array([(i, (i + 1) % n) for i in range(n)] + [(0, n // 2), (1, n // 3)])
    m = len(edges)
    root = rng.normal(size=(n, 3, 3)) * 0.05
    root[0] = 0
    covariance = root @ root.transpose(0, 2, 1)
    wxyz = rng.normal(size=(n, 4))
    fields = {
        "title": "loop.g2o",
        "subtitle": f"{n} nodes, {m} edges",
        "headline": [Fact("Verdict", "Converged", "all chains agree", "good"), Fact("Time", "3 s")],
        "settings": [("seed", "7")],
        "notices": ["Something to know."],
        "node_ids": [str(10 * i) for i in range(n)],
        "positions": positions,
        "world_from_node_wxyz": wxyz / np.linalg.norm(wxyz, axis=1, keepdims=True),
        "component": np.zeros(n, dtype=np.int64),
        "gauge": "All σ are relative to node 0.",
        "length_unit": "m",
        "edges": edges,
        "edge_rotation_deg": np.abs(rng.normal(size=m)),
        "edge_translation": np.abs(rng.normal(size=m)) * 0.1,
        "traces": [Trace("Energy", np.arange(50), np.exp(-np.arange(50.0)), "U", True, [(20, "sampling begins")])],
        "histograms": [Histogram("Effective sample size", rng.gamma(9, 40, size=n))],
        "version": "0.0",
    }
    if sigmas:
        fields |= {
            "sigma_rot_deg": rng.random(n),
            "sigma_pos": np.sqrt(np.trace(covariance, axis1=1, axis2=2)),
            "position_covariance": covariance,
            "edge_surprise": np.abs(rng.normal(size=m)) + 0.5,
            "draw_positions": positions + 0.1 * rng.normal(size=(7, n, 3)),
            "truth_positions": positions + 0.1 * rng.normal(size=(n, 3)),
        }
    return ReportData(**(fields | changes))


class Reader(HTMLParser):
    """Collects elements, and the text directly after each kind of start tag, as a browser would cut them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.open: str | None = None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open:
            self.text[self.open] = self.text.get(self.open, "") + data


def payload_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def unpack(packed: dict) -> np.ndarray:
    dtype = np.dtype("<" + packed["dtype"])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["body"])), dtype=np.uint8)
    return planes.reshape(dtype.itemsize, -1).T.copy().view(dtype).reshape(packed["shape"])


def two_cards(name: str = "Explanation", **changes) -> Explanations:
    """Of the loop of ``make_data``: the second places nodes 3 and 4 elsewhere, and gives up the link before them."""
    data = make_data()
    moved = np.isin(np.arange(12), [3, 4])
    elsewhere = data.positions + np.where(moved[:, None], [2.0, 1.0, 0.0], 0.0)
    rows = [("links given up", name)]
    cards = [
        ExplanationCard(f"{name} 1", "55%", rows, data.positions, moved, data.edges, np.zeros((0, 2), dtype=np.int64)),
        ExplanationCard(f"{name} 2", "45%", rows, elsewhere, moved, data.edges[3:], data.edges[2:3]),
    ]
    return replace(Explanations(f"Two: {name}", name, cards, planar=True), **changes)


# ── the page as a document ───────────────────────────────────────────────────────────────────────────────────


def test_page_loads_nothing():
    text = render_page(make_data())
    reader = Reader()
    reader.feed(text)
    addresses = [v for _, attrs in reader.tags for k, v in attrs.items() if k in ("src", "href")]
    assert addresses == ["data:,"]
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a load
    assert not re.search(r"@import|url\(|importScripts|XMLHttpRequest|fetch\(", text)
    assert "default-src 'none'" in text
    assert "{{" not in re.sub(r"<script.*", "", text, flags=re.S)


def test_same_data_gives_same_bytes(tmp_path):
    write_page(tmp_path / "a.html", make_data())
    write_page(tmp_path / "b.html", make_data())
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def data_saying(text: str) -> ReportData:
    """A report in which every string is ``text``."""
    return make_data(
        title=text,
        subtitle=text,
        headline=[Fact(text, text, text, "bad")],
        details=[Fact(text, text, text)],
        explanations=two_cards(text),
        settings=[(text, text)],
        notices=[text],
        gauge=text,
        length_unit=text,
        version=text,
        node_ids=[text] * 12,
        traces=[Trace(text, [0, 1], [1.0, 2.0], text, False, [(0, text)])],
        histograms=[Histogram(text, [1.0, 2.0], text)],
    )


@pytest.mark.parametrize("evil", EVIL)
def test_user_text_stays_text(evil):
    text = render_page(data_saying(evil))
    harmless, hostile = Reader(), Reader()
    harmless.feed(render_page(data_saying("x")))
    hostile.feed(text)
    assert hostile.tags == harmless.tags
    assert hostile.text["h1"] == evil
    assert hostile.text["td"] == evil
    payload = payload_of(text)
    assert payload["ids"] == [evil] * 12
    assert payload["traces"][0]["marks"] == [[0.0, evil]]


def test_file_name_that_is_not_unicode(tmp_path):
    write_page(tmp_path / "r.html", make_data(title="caf\udce9.g2o", node_ids=["\udcff"] + ["x"] * 11))
    assert "caf?.g2o" in (tmp_path / "r.html").read_text(encoding="utf-8")


# ── the numbers in the page ──────────────────────────────────────────────────────────────────────────────────


def test_arrays_come_back():
    data = make_data(40)
    payload = payload_of(render_page(data))
    origin = np.array(payload["origin"])
    np.testing.assert_allclose(unpack(payload["positions"]) + origin, data.positions, atol=1e-6)
    np.testing.assert_allclose(unpack(payload["truth"]) + origin, data.truth_positions, atol=1e-6)
    np.testing.assert_allclose(unpack(payload["wxyz"]) / 32767, data.world_from_node_wxyz, atol=2e-5)
    np.testing.assert_array_equal(unpack(payload["edges"]), data.edges)
    np.testing.assert_array_equal(unpack(payload["component"]), data.component)
    for name in ("sigma_pos", "sigma_rot_deg", "edge_rotation_deg", "edge_translation", "edge_surprise"):
        np.testing.assert_allclose(unpack(payload[name]), getattr(data, name), rtol=1e-6)
    upper = unpack(payload["ellipsoids"]["covariance"]) * payload["ellipsoids"]["scale"]
    rows, columns = np.triu_indices(3)
    nodes = unpack(payload["ellipsoids"]["nodes"])
    np.testing.assert_array_equal(nodes, np.arange(40))
    np.testing.assert_allclose(upper, data.position_covariance[:, rows, columns], rtol=1e-5, atol=1e-12)
    draws = payload["draws"]
    offset = unpack(draws["offset"]) * draws["step"]
    np.testing.assert_allclose(offset + data.positions, data.draw_positions, atol=draws["step"])


def places_of(kind: str, picture: str) -> np.ndarray:
    """Where the lines of a kind begin, in the picture of a card."""
    path = re.search(rf'class="{kind}" d="(.*?)"', picture)[1]
    return np.array([[float(x) for x in pair] for pair in re.findall(r"M(\S+) (\S+?)[hL]", path)]).reshape(-1, 2)


@pytest.mark.parametrize("planar", [True, False])
def test_explanations_stand_below_the_picture_in_the_same_view(planar):
    text = render_page(make_data(explanations=two_cards(planar=planar), details=[Fact("proof", "of the kept edges")]))
    order = ['id="viewer"', 'class="explanations"', '<ul class="tiles">', 'class="details"']
    assert sorted(order, key=text.index) == order
    first, second = re.findall(r"<svg viewBox.*?</svg>", text[text.index('class="explanations"') :], re.S)
    assert np.array_equal(places_of("nodes", first), places_of("nodes", second))
    for picture, lost in ((first, 0), (second, 1)):
        assert [len(places_of(kind, picture)) for kind in ("nodes", "moved", "lost")] == [10, 2, lost]
        drawn = np.concatenate([places_of("nodes", picture), places_of("moved", picture)])
        assert np.all((drawn > 0) & (drawn < [320, 220]))
    shift = places_of("moved", second) - places_of("moved", first)
    assert np.ptp(shift, axis=0).max() < 0.21  # both nodes by the same way, to a tenth of a pixel
    if planar:  # seen from above, y up: twice as far to the right as up
        assert shift[0, 0] == pytest.approx(-2.0 * shift[0, 1], abs=0.3)
    assert np.linalg.norm(shift[0]) > 10.0
    plain = render_page(make_data())  # negative control
    assert 'class="explanations"' not in plain and 'class="details"' not in plain


def test_explanations_of_one_place_and_wrong_shapes():
    card = ExplanationCard(
        "1", "80%", [], np.zeros((3, 3)), np.zeros(3, bool), np.array([[0, 1]]), np.zeros((0, 2), int)
    )
    for planar in (True, False):
        block = Explanations("One", "", [card], planar).html()
        assert "nan" not in block and "inf" not in block and 'class="legend' not in block
    with pytest.raises(GraphError, match=r"1: positions \(2, 3\), marked \(3,\)"):
        replace(card, positions=np.zeros((2, 3)))


def other_variant(label: str = "explanation 2, 45%", n: int = 12) -> Variant:
    """The loop of ``make_data`` with all nodes elsewhere and other residuals."""
    data = make_data(n)
    return Variant(
        label=label,
        positions=data.positions + np.array([7.0, 0.0, 0.0]),
        world_from_node_wxyz=data.world_from_node_wxyz,
        sigma_rot_deg=2.0 * data.sigma_rot_deg,
        sigma_pos=2.0 * data.sigma_pos,
        position_covariance=4.0 * data.position_covariance,
        edge_rotation_deg=3.0 * data.edge_rotation_deg,
        edge_translation=data.edge_translation,
        edge_surprise=data.edge_surprise[::-1].copy(),
    )


def test_variants_come_back_beside_the_first():
    variant = other_variant()
    payload = payload_of(render_page(make_data(label="explanation 1, 55%", variants=[variant])))
    assert payload["label"] == "explanation 1, 55%"
    [packed] = payload["variants"]
    assert packed["label"] == variant.label
    np.testing.assert_allclose(unpack(packed["positions"]) + payload["origin"], variant.positions, atol=1e-6)
    np.testing.assert_allclose(unpack(packed["sigma_pos"]), variant.sigma_pos, rtol=1e-6)
    upper = unpack(packed["ellipsoids"]["covariance"]) * packed["ellipsoids"]["scale"]
    np.testing.assert_allclose(upper[:, 0], variant.position_covariance[:, 0, 0], rtol=1e-5, atol=1e-12)
    with pytest.raises(GraphError, match="positions of 'x' is not of shape"):
        make_data(variants=[replace(variant, label="x", positions=np.zeros((3, 3)))])


def test_tiles_are_in_groups():
    facts = [Fact("a", "1", group="One & two"), Fact("b", "2", group="Three"), Fact("c", "3", group="One & two")]
    text = render_page(make_data(headline=facts))
    told = re.findall(r'<h2 class="group-name">(.*?)</h2>|<p class="label">(.*?)</p>', text)
    assert [one or two for one, two in told] == ["One &amp; two", "a", "c", "Three", "b"]


def test_map_coordinates_keep_their_millimetres():
    offset = np.array([4.3e5, 5.5e6, 300.0])
    data = make_data()
    far = make_data(positions=data.positions + offset, draw_positions=None, truth_positions=None)
    payload = payload_of(render_page(far))
    got = unpack(payload["positions"]).astype(float) + payload["origin"]
    np.testing.assert_allclose(got, far.positions, rtol=0, atol=1e-6)


def test_tiny_covariances_survive_single_precision():
    data = make_data()
    tiny = make_data(position_covariance=data.position_covariance * 1e-44)
    ellipsoids = payload_of(render_page(tiny))["ellipsoids"]
    got = unpack(ellipsoids["covariance"])[:, 0].astype(float) * ellipsoids["scale"]
    np.testing.assert_allclose(got, tiny.position_covariance[:, 0, 0], rtol=1e-5)


def test_large_graph_is_thinned(monkeypatch):
    monkeypatch.setattr(page, "MAX_ELLIPSOIDS", 10)
    monkeypatch.setattr(page, "MAX_DRAW_POINTS", 200)
    data = make_data(100, draw_positions=np.ones((30, 100, 3)))
    payload = payload_of(render_page(data))
    assert payload["ellipsoids"]["nodes"]["shape"] == [10]
    k, nodes, _ = payload["draws"]["offset"]["shape"]
    assert k * nodes <= 200
    assert nodes == len(range(0, 100, payload["draws"]["stride"]))


def test_missing_things_are_null():
    payload = payload_of(render_page(make_data(sigmas=False)))
    for name in ("sigma_pos", "sigma_rot_deg", "edge_surprise", "ellipsoids", "draws", "truth"):
        assert payload[name] is None
    assert [h["label"] for h in payload["histograms"]] == [
        "Rotation residuals",
        "Translation residuals",
        "Effective sample size",
    ]


def test_rotation_only_graph_shows_viewing_directions():
    for positions in (np.zeros((12, 3)), np.full((12, 3), np.nan)):
        data = make_data(positions=positions, edge_translation=np.full(14, np.nan), draw_positions=None)
        payload = payload_of(render_page(data))
        assert payload["layout"] == "directions"
        assert payload["limits"]["edge_translation"] is None
        assert payload["ellipsoids"] is None
        shown = unpack(payload["positions"]) + np.array(payload["origin"])
        w, x, y, z = data.world_from_node_wxyz.T
        axis = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x**2 + y**2)], axis=1)
        np.testing.assert_allclose(shown, axis, atol=1e-6)


def flat_data(**changes) -> ReportData:
    """The loop in the plane, with two landmarks, a fixed node and two measured positions."""
    whole = make_data()
    positions, covariance = whole.positions.copy(), whole.position_covariance.copy()
    positions[:, 2] = covariance[:, 2, :] = covariance[:, :, 2] = 0.0
    kind = np.zeros(12, dtype=np.int64)
    kind[[3, 7]], kind[0] = 1, 2
    measured = positions[[2, 5]] + [0.3, -0.2, 0.0]
    given = {"planar": True, "positions": positions, "position_covariance": covariance, "kind": kind}
    given |= {"fix_nodes": np.array([2, 5]), "fix_positions": measured, "draw_positions": None, "truth_positions": None}
    return make_data(**(given | changes))


def test_plane_landmarks_and_measured_positions_are_told():
    data = flat_data()
    payload = payload_of(render_page(data))
    assert payload["planar"] is True
    np.testing.assert_array_equal(unpack(payload["kind"]), data.kind)
    np.testing.assert_array_equal(unpack(payload["fixes"]["nodes"]), [2, 5])
    np.testing.assert_allclose(unpack(payload["fixes"]["positions"]) + payload["origin"], data.fix_positions, atol=1e-6)
    assert payload_of(render_page(make_data()))["fixes"] is None
    with pytest.raises(GraphError, match="fix_positions"):
        flat_data(fix_nodes=np.array([1]))


def test_one_node_without_edges():
    data = ReportData(
        title="one",
        node_ids=["0"],
        positions=np.zeros((1, 3)),
        world_from_node_wxyz=np.array([[1.0, 0, 0, 0]]),
        component=np.zeros(1, dtype=np.int64),
        edges=np.zeros((0, 2), dtype=np.int64),
        edge_rotation_deg=np.zeros(0),
        edge_translation=np.zeros(0),
    )
    payload = payload_of(render_page(data))
    assert payload["layout"] == "positions"
    assert payload["histograms"] == []


# ── statistics ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [1, 2, 9, 300, 20_000])
@pytest.mark.parametrize("kind", ["gamma", "normal", "cauchy", "whole", "offset"])
def test_histogram_counts_every_value_once(n, kind):
    rng = np.random.default_rng(n)
    values = {
        "gamma": rng.gamma(2, 0.3, n),
        "normal": rng.normal(size=n) * 1e-7,
        "cauchy": np.abs(rng.standard_cauchy(n)),
        "whole": rng.integers(0, 11, n).astype(float),
        "offset": 1e6 + rng.random(n),
    }[kind]
    bins = parts.histogram_bins(Histogram("x", np.concatenate([values, [np.nan, np.inf]])))
    assert bins["n"] == n
    assert bins["missing"] == 2
    assert bins["median"] == np.median(values)
    assert bins["q95"] == np.quantile(values, 0.95)
    assert bins["max"] == values.max()
    if "counts" not in bins:  # all values alike
        assert np.ptp(values) <= 1e-12 * abs(values).max()
        return
    assert sum(bins["counts"]) + bins["beyond"] == n
    assert bins["beyond"] <= 0.011 * n
    assert len(bins["counts"]) <= 45
    ends = bins["start"] + bins["width"] * np.arange(len(bins["counts"]) + 1)
    inner = np.abs(values[:, None] - ends).min(axis=1) > 1e-6 * bins["width"]  # ties at an end may go either way
    if inner.all():
        np.testing.assert_array_equal(np.histogram(values, np.append(ends, np.inf))[0][:-1], bins["counts"])


def test_histogram_of_nothing():
    bins = parts.histogram_bins(Histogram("x", [np.nan]))
    assert (bins["n"], bins["missing"]) == (0, 1)
    assert "counts" not in bins


def test_colour_limits():
    assert parts.colour_limits(None) is None
    assert parts.colour_limits(np.array([np.nan])) is None
    assert parts.colour_limits(np.array([1.0, np.nan, 9.0])) == (0.0, 9.0)
    assert parts.colour_limits(np.array([8.0, 9.0])) == (8.0, 9.0)
    assert parts.colour_limits(np.array([5.0, 5.0])) == (0.0, 5.0)
    assert parts.colour_limits(np.zeros(3)) == (0.0, 1.0)
    tail = np.append(np.linspace(0, 1, 999), 1e9)
    assert parts.colour_limits(tail)[1] == pytest.approx(np.quantile(tail, 0.99))


def test_long_trace_keeps_spikes_and_ends():
    values = np.random.default_rng(0).normal(size=50_001)
    values[31_234], values[40_000] = 1e6, -1e6
    values[100] = np.nan
    trace = page._trace(Trace("U", np.arange(50_001), values))
    assert len(trace["steps"]) <= page.MAX_TRACE_POINTS
    assert {0, 31_234, 40_000, 50_000} <= set(trace["steps"])
    assert max(trace["values"]) == 1e6
    for step, value in zip(trace["steps"], trace["values"], strict=True):
        assert value == values[int(step)]


def test_log_trace_leaves_out_what_has_no_logarithm():
    trace = page._trace(Trace("U", [0, 1, 2, 3], [1.0, 0.0, np.inf, 4.0], log=True))
    assert trace["values"] == [1.0, None, None, 4.0]
    assert not page._trace(Trace("U", [0, 1], [-1.0, -2.0], log=True))["log"]


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma_pos": np.ones(3)}, r"sigma_pos has shape \(3,\), expected \(12,\)"),
        ({"edges": np.array([[0, 12]] * 14)}, r"edge 0 is \(.*\), nodes are 0…11"),
        ({"draw_positions": np.ones((2, 5, 3))}, "draw_positions"),
        ({"node_ids": []}, "at least one node"),
    ],
)
def test_inconsistent_data_is_refused(change, message):
    with pytest.raises(GraphError, match=message):
        make_data(**change)


def test_pose_that_is_not_finite_is_named():
    positions = make_data().positions.copy()
    positions[3, 1] = np.inf
    with pytest.raises(GraphError, match="positions of node '30' is not finite"):
        make_data(positions=positions)


def test_bad_fact_and_trace():
    with pytest.raises(ArgumentError, match="tone"):
        Fact("a", "b", tone="loud")
    with pytest.raises(ArgumentError, match="steps"):
        Trace("a", [1, 2], [1.0])


# ── in a browser ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("case", ["full", "bare", "directions", "flat", "hostile", "explanations"])
def test_page_runs_in_a_browser(tmp_path, case):
    data = {
        "full": lambda: make_data(node_ids=[EVIL[i % len(EVIL)] + str(i) for i in range(12)]),
        "bare": lambda: make_data(sigmas=False),
        "directions": lambda: make_data(positions=np.zeros((12, 3)), edge_translation=np.full(14, np.nan)),
        "flat": flat_data,
        "hostile": lambda: make_data(
            node_ids=HOSTILE, title=HOSTILE[1], notices=HOSTILE, settings=[(HOSTILE[3], HOSTILE[2])]
        ),
        "explanations": lambda: make_data(explanations=two_cards(EVIL[0]), details=[Fact(EVIL[0], EVIL[1])]),
    }[case]()
    write_page(tmp_path / "report.html", data)
    document, said = shown((tmp_path / "report.html").as_uri(), tmp_path / "profile")
    assert 'data-ready="yes"' in document
    assert "CONSOLE" not in said
    assert "<title>hit" not in document
    if case == "full":
        worst = re.search(r'id="node-table".*?<tr data-index="(\d+)"', document, re.S)[1]
        assert int(worst) == int(np.argmax(data.sigma_pos))
        oddest = re.search(r'id="edge-table".*?<tr data-index="(\d+)"', document, re.S)[1]
        assert int(oddest) == int(np.argmax(data.edge_surprise))


PROBE = """
<script>
window.addEventListener("error", (event) => { document.documentElement.dataset.broken = event.message; });
addEventListener("load", () => setTimeout(() => {
  const canvas = document.querySelector("canvas.below");
  const sheet = document.createElement("canvas");
  Object.assign(sheet, { width: canvas.width, height: canvas.height });
  const pen = sheet.getContext("2d");
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, sheet.width, sheet.height);
  const shades = new Set();
  let inked = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] < 200 || data[i + 1] < 200 || data[i + 2] < 200) inked++;
    shades.add((data[i] >> 4) << 8 | (data[i + 1] >> 4) << 4 | data[i + 2] >> 4);
  }
  ACTION
  Object.assign(document.documentElement.dataset, { inked, shades: shades.size, painter: canvas.parentElement.dataset.painter });
}, 1500));
</script>
"""


def probed(
    tmp_path, data, address: str = "", action: str = "", flags: tuple[str, ...] = ()
) -> tuple[dict[str, str], str, str]:
    """What is on the lower canvas of a page, its document, and what the browser wrote."""
    path = tmp_path / "report.html"
    path.write_text(render_page(data).replace("</head>", PROBE.replace("ACTION", action) + "</head>"))
    document, said = shown(path.as_uri() + address, tmp_path / "profile", flags=flags)
    assert "data-broken" not in document
    return dict(re.findall(r'data-(\w+)="(.*?)"', document.split("<head>")[0])), document, said


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_both_painters_draw_the_same_graph(tmp_path):
    """WebGL, in software here, beside the page's own pixels; and a single place, as negative control."""
    n = 1000
    data = make_data(n, draw_positions=None, truth_positions=None)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    pixels, _, said = probed(tmp_path / "a", data)
    assert (
        pixels["painter"] == "canvas" and "CONSOLE" not in said
    )  # no graphics processor here: no WebGL, and no warning of it
    drawn, _, _ = probed(tmp_path / "b", data, "#webgl", flags=("--enable-unsafe-swiftshader",))
    if drawn["painter"] != "webgl":
        pytest.skip("no WebGL in this browser")
    assert int(drawn["inked"]) == pytest.approx(int(pixels["inked"]), rel=0.1)
    assert int(pixels["shades"]) > 20 and int(drawn["shades"]) > 20
    bare = replace(data, position_covariance=None, edges=data.edges[:0], edge_rotation_deg=data.edge_rotation_deg[:0],
                   edge_translation=data.edge_translation[:0], edge_surprise=None)  # fmt: skip
    (tmp_path / "c").mkdir()
    assert int(probed(tmp_path / "c", bare)[0]["inked"]) < 0.8 * int(pixels["inked"])


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("address", ["", "#webgl"])
def test_a_click_picks_what_is_there(tmp_path, address):
    """A node in the middle of the picture; a click beside it picks nothing."""
    one = make_data(12, positions=np.zeros((12, 3)), planar=True, draw_positions=None, truth_positions=None)
    positions = np.zeros((12, 3))
    positions[:4] = [[-1, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0]]
    data = replace(one, positions=positions, node_ids=[f"n{i}" for i in range(12)], edges=np.full((14, 2), 0))
    click = """
      Element.prototype.setPointerCapture = () => {};
      const above = document.getElementById("canvas");
      const box = above.getBoundingClientRect();
      for (const [name, away] of [["hit", 0], ["miss", 60]]) {
        const [clientX, clientY] = [box.left + box.width / 2 + away, box.top + box.height / 2 + away];
        const at = { pointerId: 1, clientX, clientY, bubbles: true };
        for (const kind of ["pointerdown", "pointerup"]) above.dispatchEvent(new PointerEvent(kind, at));
        document.documentElement.dataset[name] = document.querySelector("#selection h3")?.textContent || "nothing";
      }
    """
    found, _, _ = probed(tmp_path, data, address, click, ("--enable-unsafe-swiftshader",))
    assert re.fullmatch(r"Node n([4-9]|1[01])", found["hit"]) and found["miss"] == "nothing"


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_without_webgl_there_is_a_picture_and_no_word(tmp_path):
    found, _, said = probed(tmp_path, make_data(1000), "#webgl", flags=("--disable-3d-apis",))
    assert found["painter"] == "canvas" and int(found["inked"]) > 1000 and "CONSOLE" not in said


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_explanations_are_switched(tmp_path):
    data = make_data(label="explanation 1, 55%", variants=[other_variant(EVIL[0])], explanations=two_cards())
    first = re.search(r'id="edge-table".*?data-index="(\d+)"', probed(tmp_path, data)[1], re.S)[1]
    assert int(first) == int(np.argmax(data.edge_surprise))
    switch = "document.querySelectorAll('#variants button')[1].click();"
    _, document, said = probed(tmp_path, data, action=switch)
    second = re.search(r'id="edge-table".*?data-index="(\d+)"', document, re.S)[1]
    assert int(second) == int(np.argmax(data.edge_surprise[::-1]))
    pressed = re.search(r'id="variants".*?</div>', document, re.S)[0]
    assert pressed.count("<button") == 2 and pressed.index('aria-pressed="false"') < pressed.index(
        'aria-pressed="true"'
    )
    assert "CONSOLE" not in said and "<title>hit" not in document
    assert document.count(">Show in the picture<") == 2


# ── the static figure ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("changes", [{}, {"sigmas": False}, {"positions": np.zeros((12, 3)), "draw_positions": None}])
def test_picture_is_written(tmp_path, changes):
    pytest.importorskip("matplotlib")
    save_picture(make_data(**changes), tmp_path / "graph.png", dpi=40)
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_rings_have_the_size_of_the_covariance():
    pytest.importorskip("matplotlib")
    covariance = np.tile(np.diag([0.01, 0.04, 0.09]), (12, 1, 1))
    axes = plot_graph(make_data(position_covariance=covariance), level=2, factor=3)
    rings = axes.collections[1]._segments3d
    assert len(rings) == 12 * 3
    np.testing.assert_allclose(np.ptp(rings[:3], axis=1).max(axis=0), 2 * 2 * 3 * np.array([0.1, 0.2, 0.3]), rtol=1e-3)
    assert "2σ ellipsoids, enlarged ×3" in [text.get_text() for text in axes.texts]


def test_a_plane_is_drawn_flat():
    pytest.importorskip("matplotlib")
    axes = plot_graph(flat_data(), factor=1.0)
    assert axes.name == "rectilinear"
    rings = [c for c in axes.collections if len(c.get_paths()) and len(c.get_paths()[0].vertices) > 10]
    ring = max(rings, key=lambda c: len(c.get_paths())).get_paths()[0].vertices - flat_data().positions[1, :2]
    inside = np.linalg.inv(flat_data().position_covariance[1, :2, :2])
    np.testing.assert_allclose(np.einsum("ta,ab,tb->t", ring, inside, ring), 4.0, rtol=1e-6)  # 2σ
    with pytest.raises(ArgumentError, match="three-dimensional"):
        plot_graph(make_data(), axes)


def test_fitting_factor():
    positions = np.array([[0.0, 0, 0], [100.0, 0, 0]])
    assert fitting_factor(positions, np.tile(np.eye(3) * 25.0, (2, 1, 1)), 2) == 1
    assert fitting_factor(positions, np.tile(np.eye(3) * 1e-4, (2, 1, 1)), 2) == 50
    assert fitting_factor(positions, np.tile(np.eye(3) * 1e-12, (2, 1, 1)), 2) == 100
    assert fitting_factor(positions, np.zeros((2, 3, 3)), 2) == 1


def test_picture_mistakes(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(FileError, match="pictures can be"):
        save_picture(make_data(), tmp_path / "graph.g2o")
    with pytest.raises(OptionError, match="positive"):
        plot_graph(make_data(), factor=0)
    with pytest.raises(ArgumentError, match="three-dimensional"):
        plot_graph(make_data(), ax=object())


def test_missing_matplotlib_tells_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] in ("matplotlib", "mpl_toolkits"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match=r"pip install 'tempose\[plot\]'"):
        plot_graph(make_data())
