// The graph in space or in the plane: what its layers are, what is under the pointer, and the legend.

const UP = {
  "+z": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  "-y": [[1, 0, 0], [0, 0, 1], [0, -1, 0]],
  "+y": [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
};
const MOST_CAMERAS = 3000;
const MOST_GHOST_LINES = 120000;
const CAMERA = [[-0.6, -0.45, 0.8], [0.6, -0.45, 0.8], [0.6, 0.45, 0.8], [-0.6, 0.45, 0.8], [-0.25, -0.5, 0.8], [0, -0.72, 0.8], [0.25, -0.5, 0.8], [0, 0, 0]];
const CAMERA_LINES = [[7, 0], [7, 1], [7, 2], [7, 3], [0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6]];
const MANY_WORST = 60; // highlighted edges from here on are thin and lie below the others
const INK = 0.55; // opacities of all ellipsoids together, as a share of the picture: more of them, and each is fainter

class GraphView extends View {
  constructor(canvas, scene, on) {
    const up = scene.guessUp();
    const { low, high, radius, origin, unit, planar, layout } = scene;
    super(canvas, { low, high, radius, origin, unit, isFlat: planar, isMetric: layout === "positions", stage: UP[up] }, scene.n + scene.m, on);
    this.scene = scene;
    this.options = {
      colour: "none", poses: "dots", edges: true, edgeColour: "none", worst: true,
      ellipsoids: Boolean(scene.ellipsoids), level: 2, factor: 1, draws: false, truth: false, fixes: true, up,
    };
    this.start();
  }

  set(changes) {
    Object.assign(this.options, changes);
    if ("up" in changes) this.space.stage = UP[changes.up];
    this.change("nodes", "edges", "balls", "poses");
    if ("up" in changes) {
      this.change();
      this.show("reset", false);
    }
  }

  /** Show another explanation of the same measurements. */
  choose(variant) {
    this.scene.choose(variant);
    this.change();
  }

  placesToShow() {
    return this.scene.positions;
  }

  flyTo({ kind, index }) {
    const { positions, edges, radius, spacing } = this.scene;
    const nodes = kind === "node" ? [index] : [edges[2 * index], edges[2 * index + 1]];
    const target = [0, 1, 2].map((k) => nodes.reduce((sum, node) => sum + positions[3 * node + k] / nodes.length, 0));
    const axis = kind === "node" && this.options.ellipsoids ? this.scene.principal(index) : null;
    const drawn = axis ? axis[0].sigma * this.options.level * this.options.factor : 0;
    this.flyToPlace(target, Math.max(kind === "node" ? 8 * spacing : 0.9 * this.scene.edgeLength(index), 3 * drawn, 0.02 * radius));
  }

  // ── layers ───────────────────────────────────────────────────────────────────────────────────────────────

  layers() {
    const { options, scene } = this;
    const list = [this.keep("grid", () => this.grid())];
    if (options.draws && scene.draws) list.push(this.keep("draws", () => this.ghosts()));
    if (options.ellipsoids && scene.ellipsoids) list.push(this.keep("balls", () => this.balls()));
    const marked = options.worst && scene.worst.length ? this.keep("worst", () => this.worst()) : [];
    if (marked.length === 1) list.push(...marked); // so many that they would bury the rest
    if (options.edges) list.push(this.keep("edges", () => this.edges()));
    if (options.truth && scene.truth) list.push(...this.keep("truth", () => this.truth()));
    if (options.fixes && scene.fixes) list.push(...this.keep("fixes", () => this.fixes()));
    if (marked.length > 1) list.push(...marked);
    if (options.poses !== "dots") list.push(...this.keep("poses", () => (options.poses === "axes" ? this.poseAxes() : this.poseCameras())));
    return list.concat(this.keep("nodes", () => this.nodes()));
  }

  /** Both ends of edges, six numbers each. */
  ends(edges, places = this.scene.positions) {
    const out = new Float32Array(6 * edges.length);
    edges.forEach((e, k) => {
      for (let end = 0; end < 2; end++) out.set(places.subarray(3 * this.scene.edges[2 * e + end], 3 * this.scene.edges[2 * e + end] + 3), 6 * k + 3 * end);
    });
    return out;
  }

  edges() {
    const { m } = this.scene;
    const { bins, palette } = this.scene.edgeColours(this.options.edgeColour, this.theme);
    const places = this.keep("ends", () => this.ends(Uint32Array.from({ length: m }, (_, e) => e)));
    const base = m > 20000 ? 0.55 : 0.9;
    const colour = painted(bins, palette, (bin) => base + (0.4 * bin) / (EDGE_BINS - 1));
    return { kind: "strokes", places, colour, width: m > 20000 ? 0.8 : m > 3000 ? 1 : 1.3, fade: this.space.isFlat ? 0 : 0.6 };
  }

  worst() {
    const places = this.ends(this.scene.worst);
    const red = parseColour(this.theme.bad);
    const styles = this.scene.worst.length > MANY_WORST ? [[1, Math.max(0.12, 20 / this.scene.worst.length)]] : [[5, 0.22], [2, 1]];
    return styles.map(([width, alpha]) => ({ kind: "strokes", places, colour: allPainted(places.length / 6, red, alpha), width }));
  }

  ghosts() {
    const { scene } = this;
    const { count, nodes, stride, step, offset } = scene.draws;
    const base = scene.basePositions;
    const pairs = stride === 1 ? scene.links.map((e) => [scene.edges[2 * e], scene.edges[2 * e + 1]]) : scene.isTrajectory ? Array.from({ length: nodes - 1 }, (_, g) => [g, g + 1]) : [];
    const skip = Math.max(1, Math.ceil((count * pairs.length) / MOST_GHOST_LINES));
    const shown = Math.ceil(count / skip);
    const places = new Float32Array(6 * shown * pairs.length);
    let at = 0;
    for (let d = 0; d < count; d += skip) {
      for (const pair of pairs) {
        for (const g of pair) {
          const from = 3 * (d * nodes + g);
          for (let k = 0; k < 3; k++) places[at++] = base[3 * g * stride + k] + step * offset[from + k];
        }
      }
    }
    const alpha = Math.max(0.12, Math.min(0.45, 4 / shown));
    return { kind: "strokes", places, colour: allPainted(places.length / 6, parseColour(this.theme.ghost), alpha), width: scene.n > 500 ? 0.8 : 1 };
  }

  truth() {
    const { scene } = this;
    const { truth, positions, links, n } = scene;
    const rgb = parseColour(this.theme.truth);
    const path = this.ends(links, truth);
    const every = Math.max(1, Math.ceil(n / 20000));
    const off = new Float32Array(6 * Math.ceil(n / every));
    for (let i = 0, at = 0; i < n; i += every, at += 6) {
      off.set(positions.subarray(3 * i, 3 * i + 3), at);
      off.set(truth.subarray(3 * i, 3 * i + 3), at + 3);
    }
    return [
      { kind: "strokes", places: off, colour: allPainted(off.length / 6, rgb, 0.45), width: 0.8 },
      { kind: "strokes", places: path, colour: allPainted(path.length / 6, rgb, 0.9), width: n > 1000 ? 1 : 1.6 },
    ];
  }

  /** Measured positions: a cross each, and a line to the node that it is about. */
  fixes() {
    const { nodes, positions } = this.scene.fixes;
    const rgb = parseColour(this.theme.truth);
    const places = new Float32Array(6 * nodes.length);
    nodes.forEach((node, k) => {
      places.set(this.scene.positions.subarray(3 * node, 3 * node + 3), 6 * k);
      places.set(positions.subarray(3 * k, 3 * k + 3), 6 * k + 3);
    });
    return [
      { kind: "strokes", places, colour: allPainted(nodes.length, rgb, 0.85), width: 1.2 },
      { kind: "dots", places: positions, colour: allPainted(nodes.length, rgb, 0.85), radius: 4, shape: "cross", line: 1.2 },
    ];
  }

  /** Error ellipsoids, below the graph and fainter the more they overlap: they never bury it. */
  balls() {
    const { scene, options } = this;
    const { nodes, covariance } = scene.ellipsoids;
    const { bins, palette } = scene.nodeColours(options.colour, this.theme);
    const places = this.keep("ball places", () => scene.at(nodes));
    const single = this.keep("ball covariance", () => Float32Array.from(covariance));
    const colour = painted(Uint8Array.from(nodes, (node) => bins[node]), palette);
    const overlap = scene.overlap(options.level * options.factor);
    return {
      kind: "balls", places, covariance: single, colour, level: options.level * options.factor, fade: 0.3,
      fill: Math.min(0.3, INK / overlap), rim: Math.min(0.75, Math.max(0.08, (3 * INK) / overlap)),
    };
  }

  nodeRadius() {
    const { n } = this.scene;
    const base = this.width < 620 ? Math.min(3.2, n <= 600 ? 3.2 : n <= 6000 ? 2 : 1.2) : n <= 60 ? 5 : n <= 600 ? 3.6 : n <= 6000 ? 2.5 : n <= 20000 ? 1.6 : 1.2;
    return this.options.poses === "dots" ? base : Math.min(base, 2.2);
  }

  /** A dot for each node, with a diamond around landmarks and a square around fixed ones. */
  nodes() {
    const { scene } = this;
    const { bins, palette } = scene.nodeColours(this.options.colour, this.theme);
    const radius = this.nodeRadius();
    const places = scene.positions;
    const layers = [{ kind: "dots", places, colour: painted(bins, palette), radius, fade: this.space.isFlat ? 0 : 0.45, line: radius > 3 ? 1 : 0.7, outline: radius > 1.3 ? this.outlineColour() : null }];
    for (const [name, shape] of [["landmark", "diamond"], ["fixed", "square"]]) {
      if (!scene.counts[name]) continue;
      const these = Uint32Array.from(scene.kind.keys()).filter((i) => scene.kind[i] === KINDS[name]);
      layers.push({ kind: "dots", places: scene.at(these), colour: allPainted(these.length, parseColour(this.theme.ink), 0.8), radius: (radius + 2.5) * (shape === "diamond" ? 1.3 : 1), shape, line: 1.1 });
    }
    return layers;
  }

  /** `rgb(r g b / a)` of the theme as numbers. */
  outlineColour() {
    return this.theme.outline.match(/[\d.]+/g).map(Number);
  }

  every() {
    return Math.max(1, Math.ceil(this.scene.n / MOST_CAMERAS));
  }

  poseAxes() {
    const { scene } = this;
    const length = 0.45 * scene.spacing;
    const shown = Math.ceil(scene.n / this.every());
    const places = new Float32Array(18 * shown);
    const bins = new Uint8Array(3 * shown);
    for (let i = 0, at = 0; i < scene.n; i += this.every()) {
      const r = scene.rotation(i);
      for (let axis = 0; axis < 3; axis++, at++) {
        bins[at] = axis;
        for (let k = 0; k < 3; k++) {
          places[6 * at + k] = scene.positions[3 * i + k];
          places[6 * at + 3 + k] = scene.positions[3 * i + k] + length * r[3 * k + axis];
        }
      }
    }
    return [{ kind: "strokes", places, colour: painted(bins, AXIS_COLOURS.map(parseColour)), width: scene.n > 600 ? 1 : 1.8 }];
  }

  /** Pyramids that open along +z, the viewing direction; the tick stands on the image's upper side (−y). */
  poseCameras() {
    const { scene } = this;
    const { bins, palette } = scene.nodeColours(this.options.colour, this.theme);
    const size = 0.42 * scene.spacing;
    const places = [];
    const colours = [];
    for (let i = 0; i < scene.n; i += this.every()) {
      const r = scene.rotation(i);
      const corners = CAMERA.map(([x, y, z]) => [0, 1, 2].map((k) => scene.positions[3 * i + k] + size * (r[3 * k] * x + r[3 * k + 1] * y + r[3 * k + 2] * z)));
      for (const [p, q] of CAMERA_LINES) {
        places.push(...corners[p], ...corners[q]);
        colours.push(bins[i]);
      }
    }
    return [{ kind: "strokes", places: Float32Array.from(places), colour: painted(Uint8Array.from(colours), palette.map((rgb) => rgb.map((v) => 0.9 * v))), width: scene.n > 600 ? 0.9 : 1.3 }];
  }

  // ── marks ────────────────────────────────────────────────────────────────────────────────────────────────

  drawMarks() {
    this.drawMarked(this.hover, false);
    this.drawMarked(this.selected, true);
  }

  viewOf(node) {
    return this.toView(...this.scene.positions.subarray(3 * node, 3 * node + 3));
  }

  drawMarked(thing, strong) {
    if (!thing) return;
    const { pen, scene } = this;
    pen.strokeStyle = strong ? this.theme.accent : this.theme.ink;
    pen.lineWidth = strong ? 2.4 : 1.6;
    if (thing.kind === "edge") {
      pen.beginPath();
      this.segment(this.viewOf(scene.edges[2 * thing.index]), this.viewOf(scene.edges[2 * thing.index + 1]));
      pen.lineWidth += 1;
      pen.stroke();
      return;
    }
    const v = this.viewOf(thing.index);
    if (!(1 + v[2] * this.seen.near > NEAR)) return;
    const [x, y] = this.toScreen(v);
    if (strong && this.options.ellipsoids && scene.ellipsoids && scene.rowOf[thing.index] >= 0) this.drawRings(thing.index, v, x, y);
    pen.beginPath();
    pen.arc(x, y, this.nodeRadius() + 4, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** Outlines of the chosen node's ellipsoid: the level shown, and 1σ, 2σ, 3σ dashed. */
  drawRings(node, [vx, vy, vz], x, y) {
    const { pen, options, seen } = this;
    const q = 1 + vz * seen.near;
    for (const level of [...new Set([1, 2, 3, options.level])]) {
      const grow = (level * options.factor * seen.scale) / q;
      const [xx, xy, yy] = outlineOf(this.scene.ellipsoids.covariance, 6 * this.scene.rowOf[node], seen.axes, (vx * seen.near) / q, (vy * seen.near) / q, grow);
      const [mean, gap] = [(xx + yy) / 2, Math.hypot((xx - yy) / 2, xy)];
      if (mean > (50 * this.width) ** 2) continue;
      pen.beginPath();
      pen.ellipse(x, y, Math.sqrt(mean + gap), Math.sqrt(Math.max(0, mean - gap)), 0.5 * Math.atan2(2 * xy, xx - yy), 0, 2 * Math.PI);
      pen.lineWidth = level === options.level ? 1.6 : 0.9;
      pen.setLineDash(level === options.level ? [] : [4, 3]);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.lineWidth = 2.4;
  }

  // ── what is under a point ────────────────────────────────────────────────────────────────────────────────

  /** The node or edge under a point of the canvas, nodes first. */
  pick(px, py) {
    const { scene } = this;
    const screen = this.projected(scene.positions);
    const node = this.nearest(scene.positions, screen, px, py, this.nodeRadius() + (isTouch() ? 16 : 6));
    if (node >= 0) return { kind: "node", index: node };
    if (!this.options.edges) return null;
    let best = null;
    let least = isTouch() ? 14 : 5;
    for (let e = 0; e < scene.m; e++) {
      const a = 2 * scene.edges[2 * e], b = 2 * scene.edges[2 * e + 1];
      const [xa, ya, xb, yb] = [screen[a], screen[a + 1], screen[b], screen[b + 1]];
      if (Math.min(xa, xb) > px + least || Math.max(xa, xb) < px - least || Math.min(ya, yb) > py + least || Math.max(ya, yb) < py - least) continue;
      const [dx, dy] = [xb - xa, yb - ya];
      const t = Math.max(0, Math.min(1, ((px - xa) * dx + (py - ya) * dy) / (dx * dx + dy * dy || 1)));
      const away = Math.hypot(px - xa - t * dx, py - ya - t * dy) - (this.options.worst && scene.isWorst.has(e) ? 2 : 0);
      if (away < least) { least = away; best = { kind: "edge", index: e }; }
    }
    return best;
  }

  // ── legend ───────────────────────────────────────────────────────────────────────────────────────────────

  legendEntries() {
    const { options, scene, theme } = this;
    const entries = [];
    if (options.colour === "component") {
      const count = new Map();
      for (const c of scene.component) count.set(c, (count.get(c) || 0) + 1);
      const listed = [...count].sort((p, q) => q[1] - p[1]).slice(0, 8);
      for (const [component, nodes] of listed) entries.push(this.key(CATEGORIES[component % CATEGORIES.length], `component ${component}: ${plural(nodes, "node")}`, true));
      if (count.size > listed.length) entries.push(this.line(`and ${plural(count.size - listed.length, "smaller component")}`));
    } else if (options.colour !== "none") {
      const name = options.colour === "sigma_pos" ? "position σ" : "rotation σ";
      const unit = options.colour === "sigma_pos" ? scene.unit : "°";
      const most = scene[options.colour].reduce((p, q) => (q > p ? q : p), -Infinity);
      entries.push(this.bar(name, unit, scene.limits[options.colour], VIRIDIS, { most }));
    }
    if (options.edges && options.edgeColour !== "none" && scene.m) {
      const names = { edge_outlier: ["probability that an edge is wrong", ""], edge_surprise: ["edge surprise, 1 = as expected", ""], edge_rotation_deg: ["rotation residual", "°"], edge_translation: ["translation residual", scene.unit] };
      const [name, unit] = names[options.edgeColour];
      entries.push(this.bar(name, unit, scene.edgeLimits(options.edgeColour), edgeStops(theme), { open: options.edgeColour === "edge_surprise" }));
    }
    if (options.worst && scene.worst.length) entries.push(this.key(theme.bad, scene.edge_outlier ? plural(scene.worst.length, scene.worstName()) : scene.edge_surprise ? `${plural(scene.worst.length, "worst edge")}, above ${WORST_ABOVE}` : `${plural(scene.worst.length, "edge")} of largest angle`));
    if (options.ellipsoids && scene.ellipsoids) entries.push(this.line(`${options.levelName} ${scene.planar ? "ellipses" : "ellipsoids"}, ${sizeWords(options.factor)}`));
    if (options.fixes && scene.fixes) entries.push(this.key(theme.truth, plural(scene.fixes.nodes.length, "measured position")));
    if (scene.counts.landmark) entries.push(this.line(`◇ ${plural(scene.counts.landmark, "landmark")}`));
    if (scene.counts.fixed) entries.push(this.line(`□ ${plural(scene.counts.fixed, "fixed node")}`));
    if (options.draws && scene.draws) entries.push(this.key(theme.ghost, plural(scene.draws.count, "posterior draw")));
    if (options.truth && scene.truth) entries.push(this.key(theme.truth, "ground truth"));
    if (scene.layout === "directions") entries.push(this.line("no positions: viewing directions"), this.line("on the unit sphere"));
    return entries;
  }
}
