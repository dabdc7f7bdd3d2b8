// The decoded graph and the colours of its nodes and edges; nothing here draws.

const COLOUR_BINS = 32;
const MISSING = COLOUR_BINS; // palette place of a node without a value
const EDGE_BINS = 16;
const WORST_ABOVE = 2; // normalised residual from which an edge is called out
const WORST_MOST = 20;
const DISTRUSTED_ABOVE = 0.5; // probability of being wrong
const KINDS = { pose: 0, landmark: 1, fixed: 2 };

class Scene {
  static async load(payload) {
    const scene = new Scene();
    scene.ids = payload.ids;
    scene.unit = payload.unit;
    scene.layout = payload.layout;
    scene.planar = payload.planar && payload.layout === "positions";
    scene.origin = payload.origin;
    scene.limits = payload.limits;
    scene.label = payload.label;
    scene.n = payload.ids.length;
    const arrays = ["positions", "wxyz", "component", "sigma_pos", "sigma_rot_deg", "edges", "edge_rotation_deg", "edge_translation", "edge_surprise", "edge_outlier", "truth", "kind"];
    for (const name of arrays) scene[name] = await unpack(payload[name]);
    scene.m = scene.edges.length / 2;
    await scene.loadEllipsoids(payload.ellipsoids);
    scene.basePositions = scene.positions;
    scene.variants = [];
    for (const variant of payload.variants || []) scene.variants.push(await scene.loadVariant(variant));
    if (payload.fixes) scene.fixes = { nodes: await unpack(payload.fixes.nodes), positions: await unpack(payload.fixes.positions) };
    if (payload.draws) {
      const { stride, step, offset } = payload.draws;
      scene.draws = { stride, step, offset: await unpack(offset), count: offset.shape[0], nodes: offset.shape[1] };
    }
    scene.prepare();
    return scene;
  }

  async loadEllipsoids(packed) {
    this.ellipsoids = null;
    if (!packed?.nodes.shape[0]) return;
    const covariance = Float64Array.from(await unpack(packed.covariance), (v) => v * packed.scale);
    this.ellipsoids = { nodes: await unpack(packed.nodes), covariance };
    this.rowOf = new Int32Array(this.n).fill(-1);
    this.ellipsoids.nodes.forEach((node, row) => { this.rowOf[node] = row; });
  }

  /** Another explanation of the same measurements: what differs from the first, everything else is shared. */
  async loadVariant(packed) {
    const variant = Object.create(this);
    for (const name of Object.keys(packed)) if (packed[name]?.dtype) variant[name] = await unpack(packed[name]);
    await variant.loadEllipsoids(packed.ellipsoids);
    variant.label = packed.label;
    return Object.fromEntries(Object.entries(variant));
  }

  /** Show variant k; 0 is the first explanation. */
  choose(k) {
    this.first ||= Object.fromEntries(["label", ...this.variants.flatMap((variant) => Object.keys(variant))].map((name) => [name, this[name]]));
    Object.assign(this, this.first, k ? this.variants[k - 1] : {});
    this.chooseWorst();
  }

  prepare() {
    this.components = 1 + this.component.reduce((a, b) => Math.max(a, b), 0);
    this.counts = Object.fromEntries(Object.entries(KINDS).map(([name, code]) => [name, this.kind ? this.kind.filter((value) => value === code).length : 0]));
    this.degree = new Uint32Array(this.n);
    for (const node of this.edges) this.degree[node]++;
    this.measureExtent();
    this.chooseWorst();
    this.chooseLinks();
  }

  measureExtent() {
    const low = [Infinity, Infinity, Infinity];
    const high = [-Infinity, -Infinity, -Infinity];
    for (let i = 0; i < this.positions.length; i++) {
      low[i % 3] = Math.min(low[i % 3], this.positions[i]);
      high[i % 3] = Math.max(high[i % 3], this.positions[i]);
    }
    this.low = low;
    this.high = high;
    this.size = low.map((value, axis) => high[axis] - value);
    const sigma = this.ellipsoids ? 6 * this.typicalSigma() : 0;
    this.radius = Math.hypot(...this.size) / 2 || sigma || 1;
    // typical distance of neighbours: the size of small things such as cameras
    const lengths = [];
    const skip = Math.max(1, Math.floor(this.m / 2000));
    for (let e = 0; e < this.m; e += skip) lengths.push(this.edgeLength(e));
    this.spacing = Math.min(median(lengths) || this.radius / 4, this.radius / 3);
  }

  edgeLength(edge) {
    const a = 3 * this.edges[2 * edge];
    const b = 3 * this.edges[2 * edge + 1];
    const p = this.positions;
    return Math.hypot(p[a] - p[b], p[a + 1] - p[b + 1], p[a + 2] - p[b + 2]);
  }

  /** Places of some nodes, three numbers each. */
  at(nodes) {
    const out = new Float32Array(3 * nodes.length);
    nodes.forEach((node, k) => out.set(this.positions.subarray(3 * node, 3 * node + 3), 3 * k));
    return out;
  }

  /** How many ellipsoids of so many σ lie above each other on average, seen from the side on which they are largest. */
  overlap(level) {
    const { covariance: c } = this.ellipsoids;
    let area = 0;
    for (let i = 0; i < c.length; i += 6) {
      const minors = c[i] * c[i + 3] - c[i + 1] ** 2 + c[i] * c[i + 5] - c[i + 2] ** 2 + c[i + 3] * c[i + 5] - c[i + 4] ** 2; // product of the two largest variances, or a little more
      area += Math.PI * level * level * Math.sqrt(Math.max(0, minors));
    }
    const [wide, tall] = [...this.size].sort((p, q) => q - p);
    const margin = 2 * level * this.typicalSigma();
    return Math.max(1e-9, area / ((wide + margin) * (tall + margin) || 1));
  }

  typicalSigma() {
    const { covariance } = this.ellipsoids;
    const sigmas = [];
    for (let i = 0; i < covariance.length; i += 6) sigmas.push(Math.sqrt((covariance[i] + covariance[i + 3] + covariance[i + 5]) / (this.planar ? 2 : 3)));
    return median(sigmas.filter((s) => s > 0));
  }

  chooseWorst() {
    const measure = this.edge_outlier || this.edge_surprise || this.edge_rotation_deg;
    const above = this.edge_outlier ? DISTRUSTED_ABOVE : this.edge_surprise ? WORST_ABOVE : 0;
    const most = this.edge_outlier ? this.m : this.edge_surprise ? WORST_MOST : Math.min(10, Math.ceil(this.m / 10));
    this.worst = largest(measure, most).filter((e) => measure[e] > above);
    this.isWorst = new Set(this.worst);
  }

  /** Lines for draws and truth: the consecutive edges if the graph is a trajectory, else all edges. */
  chooseLinks() {
    const chain = [];
    const all = [];
    for (let e = 0; e < this.m; e++) {
      if (Math.abs(this.edges[2 * e] - this.edges[2 * e + 1]) === 1) chain.push(e);
      all.push(e);
    }
    this.isTrajectory = chain.length >= 0.5 * (this.n - 1);
    this.links = this.isTrajectory ? chain : all;
  }

  /** Rotation matrix (row major) of a node's orientation. */
  rotation(node) {
    const q = [0, 1, 2, 3].map((k) => this.wxyz[4 * node + k]);
    const norm = Math.hypot(...q) || 1;
    const [w, x, y, z] = q.map((value) => value / norm);
    return [
      1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
      2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
      2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ];
  }

  /** Principal standard deviations and directions of a node's position, largest first; null if unknown. */
  principal(node) {
    const row = this.ellipsoids ? this.rowOf[node] : -1;
    return row < 0 ? null : symmetricEigen(this.ellipsoids.covariance.subarray(6 * row, 6 * row + 6));
  }

  /** The up axis that lays a flat trajectory down: z unless the graph is flat in y. */
  guessUp() {
    if (this.planar) return "+z";
    return this.layout === "positions" && this.size[1] < 0.35 * Math.min(this.size[0], this.size[2]) ? "-y" : "+z";
  }

  /** What the highlighted edges are, in the singular. */
  worstName() {
    return this.edge_outlier ? "distrusted edge" : "worst edge";
  }

  hasColour(kind) {
    if (kind === "none") return true;
    return kind === "component" ? this.components > 1 : Boolean(this[kind] && this.limits[kind]);
  }

  /** Palette (colours as [r, g, b]) and place of each node in it. */
  nodeColours(kind, theme) {
    const bins = new Uint8Array(this.n);
    if (kind === "component") {
      for (let i = 0; i < this.n; i++) bins[i] = this.component[i] % CATEGORIES.length;
      return { palette: CATEGORIES.map(parseColour), bins };
    }
    if (kind === "none") return { palette: [parseColour(theme.accent)], bins };
    const palette = Array.from({ length: COLOUR_BINS }, (_, k) => along(VIRIDIS, k / (COLOUR_BINS - 1)));
    palette.push(parseColour(theme.faint));
    const [low, high] = this.limits[kind];
    for (let i = 0; i < this.n; i++) {
      const t = (this[kind][i] - low) / (high - low);
      bins[i] = Number.isNaN(t) ? MISSING : Math.max(0, Math.min(COLOUR_BINS - 1, Math.floor(t * COLOUR_BINS)));
    }
    return { palette, bins };
  }

  /** Ends of the colour scale of edges; surprise is absolute: grey up to 1, red from 3; probabilities are from 0 to 1. */
  edgeLimits(kind) {
    if (kind === "edge_outlier") return [0, 1];
    return kind === "edge_surprise" ? [1, 3] : this.limits[kind];
  }

  edgeColours(kind, theme) {
    const bins = new Uint8Array(this.m);
    const stops = edgeStops(theme);
    const palette = Array.from({ length: EDGE_BINS }, (_, k) => along(stops, k / (EDGE_BINS - 1)));
    if (kind !== "none" && this[kind] && this.edgeLimits(kind)) {
      const [low, high] = this.edgeLimits(kind);
      for (let e = 0; e < this.m; e++) {
        const t = (this[kind][e] - low) / (high - low);
        bins[e] = t > 0 ? Math.min(EDGE_BINS - 1, Math.floor(t * EDGE_BINS)) : 0;
      }
    }
    return { palette, bins };
  }
}

const edgeStops = (theme) => [theme.edge, "#e0962a", "#d8342f"];

/** Indices of the `count` largest values, largest first; NaN never ranks. */
function largest(values, count, sign = 1) {
  const order = [];
  for (let i = 0; i < values.length; i++) if (!Number.isNaN(values[i])) order.push(i);
  return order.sort((a, b) => sign * (values[b] - values[a]) || a - b).slice(0, count);
}

/** Eigenvalues' roots and vectors of a symmetric 3×3 matrix (xx, xy, xz, yy, yz, zz) by Jacobi rotations. */
function symmetricEigen([xx, xy, xz, yy, yz, zz]) {
  const a = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]];
  const v = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  for (let sweep = 0; sweep < 12; sweep++) {
    for (const [p, q] of [[0, 1], [0, 2], [1, 2]]) {
      if (a[p][q] === 0) continue;
      const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
      const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.hypot(theta, 1));
      const c = 1 / Math.hypot(t, 1);
      const s = t * c;
      for (let k = 0; k < 3; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
      for (let k = 0; k < 3; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
      for (let k = 0; k < 3; k++) [v[k][p], v[k][q]] = [c * v[k][p] - s * v[k][q], s * v[k][p] + c * v[k][q]];
    }
  }
  const axes = [0, 1, 2].map((k) => ({ sigma: Math.sqrt(Math.max(0, a[k][k])), direction: v.map((row) => row[k]) }));
  return axes.sort((one, two) => two.sigma - one.sigma);
}
