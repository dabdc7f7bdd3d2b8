// The three-dimensional view on a plain 2-D canvas: no GPU needed, and every pixel prints.
//
// Coordinates: world (relative to the origin) → view (right, up, away from the viewer) → screen (CSS pixels).
// Perspective is w = 1 / (1 + away · nearness), so that nearness 0 is an orthographic view of the same scale.

const UP = {
  "+z": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  "-y": [[1, 0, 0], [0, 0, 1], [0, -1, 0]],
  "+y": [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
};
const VIEWS = {
  reset: { yaw: 0.6, pitch: 0.5, perspective: 1 },
  top: { yaw: 0, pitch: Math.PI / 2, perspective: 0 },
  front: { yaw: 0, pitch: 0, perspective: 0 },
  side: { yaw: Math.PI / 2, pitch: 0, perspective: 0 },
};
const NEAR = 0.12; // things whose 1 + away · nearness is smaller lie behind the viewer
const SPRITE = 64;
const AXIS_COLOURS = ["#d9483b", "#3a9a4b", "#3f6fe0"];
const MOST_ELLIPSOIDS = 5000;
const MOST_CAMERAS = 3000;
const CHUNK = 400; // segments per path: one huge path is slow to stroke

class Viewer {
  constructor(canvas, scene, on) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.scene = scene;
    this.on = on;
    this.options = {
      colour: "none", poses: "dots", edges: true, edgeColour: "none", worst: true,
      ellipsoids: Boolean(scene.ellipsoids), level: 2, factor: 1, draws: false, truth: false, fixes: true, up: scene.guessUp(),
    };
    this.camera = { ...VIEWS.reset, target: [0, 0, 0], scale: 1 };
    this.hover = null;
    this.selected = null;
    this.detail = Math.min(1, 30000 / (scene.n + scene.m)); // of moving pictures; adapts to the machine
    const { n } = scene;
    this.view = new Float32Array(3 * n);
    this.x = new Float32Array(n);
    this.y = new Float32Array(n);
    this.order = new Uint32Array(n);
    this.edgeOrder = new Uint32Array(scene.m);
    this.readTheme();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
    this.show("reset", false);
  }

  // ── state ────────────────────────────────────────────────────────────────────────────────────────────────

  set(changes) {
    Object.assign(this.options, changes);
    if ("up" in changes) this.show("reset", false);
    this.recolour();
    this.invalidate();
  }

  select(thing, fly = false) {
    this.selected = thing;
    if (thing && fly) this.flyTo(thing);
    this.on.select(thing);
    this.invalidate();
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    this.theme = {};
    for (const name of ["stage", "card", "line", "ink", "soft", "faint", "accent", "grid", "edge", "outline", "ghost", "truth", "bad"]) {
      this.theme[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.font = style.getPropertyValue("--sans");
    this.recolour();
    this.invalidate();
  }

  recolour() {
    this.nodePaint = this.scene.nodeColours(this.options.colour, this.theme);
    this.edgePaint = this.scene.edgeColours(this.options.edgeColour, this.theme);
    this.sprites = null;
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const grown = this.width ? Math.min(clientWidth / this.width, clientHeight / this.height) : 1;
    this.width = clientWidth;
    this.height = clientHeight;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(clientWidth * this.ratio);
    this.canvas.height = Math.round(clientHeight * this.ratio);
    this.camera.scale *= grown;
    this.sprites = null;
    this.draw(); // at once: a resized canvas is blank
  }

  // ── camera ───────────────────────────────────────────────────────────────────────────────────────────────

  /** View axes (right, up, away) in world coordinates, nine numbers. */
  axes({ yaw, pitch } = this.camera) {
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const rows = [[cy, sy, 0], [-sp * sy, sp * cy, cp], [-cp * sy, cp * cy, -sp]];
    const up = UP[this.options.up];
    return rows.flatMap((row) => [0, 1, 2].map((k) => row[0] * up[0][k] + row[1] * up[1][k] + row[2] * up[2][k]));
  }

  nearness({ perspective, scale } = this.camera) {
    return (perspective * scale) / (2.2 * Math.max(this.width, this.height));
  }

  show(name, animate = true) {
    this.moveTo(this.fitted(VIEWS[this.scene.planar ? "top" : name]), animate); // a plane is seen from above
  }

  /** The camera with these angles that has the whole graph in the picture, beside the legend if it must. */
  fitted(view) {
    const a = this.axes(view);
    const { low, high, radius } = this.scene;
    const middle = low.map((value, k) => (value + high[k]) / 2);
    const camera = { ...view, target: middle, scale: Math.min(this.width, this.height) / (2.4 * radius) };
    if (this.scene.n === 1) return { ...camera, scale: 2 * camera.scale };
    const fit = (left, top) => {
      for (let round = 0; round < 12; round++) this.refine(camera, a, left, top);
    };
    fit(0, 0);
    const legend = this.legendBox();
    if (!this.anyInside(camera, a, legend.right, legend.bottom)) return camera;
    if (this.width > 2.5 * legend.right) fit(legend.right, 0);
    else fit(0, Math.min(legend.bottom, 0.4 * this.height));
    return camera;
  }

  /** Shift and scale a camera until the picture of the graph fills the canvas right of `left`, below `top`. */
  refine(camera, a, left, top) {
    const low = [Infinity, Infinity];
    const high = [-Infinity, -Infinity];
    this.eachPlace(camera, a, (x, y) => {
      low[0] = Math.min(low[0], x);
      low[1] = Math.min(low[1], y);
      high[0] = Math.max(high[0], x);
      high[1] = Math.max(high[1], y);
    });
    const [dx, dy] = [(low[0] + high[0] - left) / 2, (low[1] + high[1] - top) / 2];
    camera.target = camera.target.map((value, k) => value + (a[k] * dx - a[3 + k] * dy) / camera.scale);
    const room = Math.min((0.86 * (this.width - left)) / Math.max(1, high[0] - low[0]), (0.86 * (this.height - top)) / Math.max(1, high[1] - low[1]));
    camera.scale *= Math.sqrt(room); // half way: perspective grows with scale, a full step would overshoot
  }

  /** Call `visit` with the place of each node on the screen, from the canvas' centre. */
  eachPlace(camera, a, visit) {
    const { positions, n } = this.scene;
    const [tx, ty, tz] = camera.target;
    const near = this.nearness(camera);
    for (let j = 0; j < 3 * n; j += 3) {
      const dx = positions[j] - tx;
      const dy = positions[j + 1] - ty;
      const dz = positions[j + 2] - tz;
      const w = camera.scale / Math.max(NEAR, 1 + near * (a[6] * dx + a[7] * dy + a[8] * dz));
      visit(w * (a[0] * dx + a[1] * dy + a[2] * dz), -w * (a[3] * dx + a[4] * dy + a[5] * dz));
    }
  }

  anyInside(camera, a, right, bottom) {
    let found = false;
    this.eachPlace(camera, a, (x, y) => { found ||= x + this.width / 2 < right && y + this.height / 2 < bottom; });
    return found;
  }

  flyTo({ kind, index }) {
    const { positions, edges, radius, spacing } = this.scene;
    const nodes = kind === "node" ? [index] : [edges[2 * index], edges[2 * index + 1]];
    const target = [0, 1, 2].map((k) => nodes.reduce((sum, node) => sum + positions[3 * node + k] / nodes.length, 0));
    const axis = kind === "node" && this.options.ellipsoids ? this.scene.principal(index) : null;
    const drawn = axis ? axis[0].sigma * this.options.level * this.options.factor : 0;
    const reach = Math.max(kind === "node" ? 8 * spacing : 0.9 * this.scene.edgeLength(index), 3 * drawn, 0.02 * radius);
    const wanted = Math.min(this.width, this.height) / (2 * Math.min(reach, radius));
    this.moveTo({ ...this.camera, target, scale: Math.max(this.camera.scale, wanted) }, true);
  }

  moveTo(goal, animate) {
    cancelAnimationFrame(this.flight);
    if (!animate || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.camera = goal;
      this.invalidate();
      return;
    }
    const from = this.camera;
    const turn = Math.atan2(Math.sin(goal.yaw - from.yaw), Math.cos(goal.yaw - from.yaw)); // the short way round
    const begin = performance.now();
    const step = (now) => {
      const t = Math.min(1, Math.max(0, (now - begin) / 380));
      const s = t * t * (3 - 2 * t);
      const mix = (a, b) => a + (b - a) * s;
      this.camera = t === 1 ? goal : {
        yaw: from.yaw + turn * s, pitch: mix(from.pitch, goal.pitch), perspective: mix(from.perspective, goal.perspective),
        scale: Math.exp(mix(Math.log(from.scale), Math.log(goal.scale))), target: from.target.map((value, k) => mix(value, goal.target[k])),
      };
      this.touch();
      if (t < 1) this.flight = requestAnimationFrame(step);
    };
    this.flight = requestAnimationFrame(step);
  }

  orbit(dx, dy) {
    if (this.scene.planar) return;
    const { camera } = this;
    camera.yaw -= dx;
    camera.pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, camera.pitch + dy));
    camera.perspective = Math.min(1, camera.perspective + 0.06);
    this.touch();
  }

  pan(dx, dy) {
    const a = this.axes();
    const { target, scale } = this.camera;
    this.camera.target = target.map((value, k) => value - (a[k] * dx - a[3 + k] * dy) / scale);
    this.touch();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const fit = Math.min(this.width, this.height) / this.scene.radius;
    const scale = Math.max(0.05 * fit, Math.min(2e5 * fit, this.camera.scale * factor));
    const change = scale / this.camera.scale;
    this.pan((x - this.width / 2) * (1 - change) / change, (y - this.height / 2) * (1 - change) / change);
    this.camera.scale = scale;
    this.touch();
  }

  // ── frames ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Something moves: draw soon with as much detail as keeps up, and in full once it rests. */
  touch() {
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => { this.moving = false; this.lastFrame = 0; this.invalidate(); }, 170);
    this.invalidate();
  }

  invalidate() {
    this.dirty = true;
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.onFrame(now));
  }

  onFrame(now) {
    this.frame = 0;
    if (this.moving && this.lastFrame) this.adapt(now - this.lastFrame);
    this.lastFrame = 0;
    if (!this.dirty) return;
    this.dirty = false;
    const begin = performance.now();
    this.draw();
    if (!this.moving) return;
    this.adapt(performance.now() - begin);
    // one empty frame after a drawn one: its delay tells what the canvas itself cost
    this.lastFrame = now;
    this.frame = requestAnimationFrame((later) => this.onFrame(later));
  }

  adapt(milliseconds) {
    if (milliseconds > 30) this.detail = Math.max(0.02, this.detail * 0.75);
    else if (milliseconds < 18) this.detail = Math.min(1, this.detail * 1.08);
  }

  /** How many of `count` things to draw now, as a stride. */
  stride(count, most) {
    const wanted = Math.min(most, count) * (this.moving ? this.detail : 1);
    return Math.max(1, Math.ceil(count / Math.max(1, wanted)));
  }

  draw() {
    if (!this.width) return;
    const { pen, options } = this;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.globalAlpha = 1;
    pen.fillStyle = this.theme.stage;
    pen.fillRect(0, 0, this.width, this.height);
    pen.lineCap = "round";
    this.project();
    this.drawGrid();
    if (options.draws && this.scene.draws) this.drawDraws();
    if (options.edges) this.drawEdges();
    if (options.truth && this.scene.truth) this.drawTruth();
    if (options.ellipsoids && this.scene.ellipsoids) this.drawEllipsoids();
    if (options.fixes && this.scene.fixes) this.drawFixes();
    if (options.worst) this.drawWorst();
    if (options.poses === "axes") this.drawAxes();
    else if (options.poses === "cameras") this.drawCameras();
    this.drawNodes();
    this.drawKinds();
    this.drawMarked(this.hover, false);
    this.drawMarked(this.selected, true);
    this.drawTriad();
    this.drawScaleBar();
    this.drawLegend();
  }

  project() {
    const { positions, n, radius } = this.scene;
    const [rx, ry, rz, ux, uy, uz, fx, fy, fz] = (this.a = this.axes());
    const [tx, ty, tz] = this.camera.target;
    const { view, x, y } = this;
    const { scale } = this.camera;
    const near = (this.k = this.nearness());
    const [cx, cy] = [this.width / 2, this.height / 2];
    const count = new Uint32Array(1026);
    const slot = new Uint16Array(n);
    for (let i = 0, j = 0; i < n; i++, j += 3) {
      const dx = positions[j] - tx;
      const dy = positions[j + 1] - ty;
      const dz = positions[j + 2] - tz;
      const vx = rx * dx + ry * dy + rz * dz;
      const vy = ux * dx + uy * dy + uz * dz;
      const vz = fx * dx + fy * dy + fz * dz;
      view[j] = vx;
      view[j + 1] = vy;
      view[j + 2] = vz;
      const q = 1 + vz * near;
      x[i] = q > NEAR ? cx + (scale * vx) / q : NaN;
      y[i] = q > NEAR ? cy - (scale * vy) / q : NaN;
      // far things first: slot 0 is the farthest
      slot[i] = Math.max(0, Math.min(1023, Math.floor(512 * (1 - vz / (2 * radius)))));
      count[slot[i] + 1]++;
    }
    for (let s = 1; s < 1026; s++) count[s] += count[s - 1];
    for (let i = 0; i < n; i++) this.order[count[slot[i]]++] = i;
  }

  /** Depth as seen in the whole graph: 0 near, 1 far. */
  depth(away) {
    return Math.max(0, Math.min(1, 0.5 + (0.5 * away) / this.scene.radius));
  }

  /** View coordinates of a world point. */
  toView(px, py, pz) {
    const { a } = this;
    const [tx, ty, tz] = this.camera.target;
    const [dx, dy, dz] = [px - tx, py - ty, pz - tz];
    return [a[0] * dx + a[1] * dy + a[2] * dz, a[3] * dx + a[4] * dy + a[5] * dz, a[6] * dx + a[7] * dy + a[8] * dz];
  }

  toScreen([vx, vy, vz]) {
    const w = this.camera.scale / Math.max(NEAR, 1 + vz * this.k);
    return [this.width / 2 + w * vx, this.height / 2 - w * vy];
  }

  /** Add the part of a segment that lies before the viewer to the current path. */
  segment(p, q) {
    let one = 1 + p[2] * this.k;
    let two = 1 + q[2] * this.k;
    if (one < NEAR && two < NEAR) return;
    if (one < NEAR || two < NEAR) {
      const t = (NEAR - one) / (two - one);
      const cut = p.map((value, k) => value + t * (q[k] - value));
      if (one < NEAR) p = cut;
      else q = cut;
    }
    const a = this.toScreen(p);
    const b = this.toScreen(q);
    this.pen.moveTo(a[0], a[1]);
    this.pen.lineTo(b[0], b[1]);
  }

  edgeSegment(a, b) {
    const { x, y, view, width, height } = this;
    const [xa, ya, xb, yb] = [x[a], y[a], x[b], y[b]];
    if (xa === xa && xb === xb) {
      if ((xa < 0 && xb < 0) || (ya < 0 && yb < 0) || (xa > width && xb > width) || (ya > height && yb > height)) return;
      this.pen.moveTo(xa, ya);
      this.pen.lineTo(xb, yb);
    } else this.segment(view.subarray(3 * a, 3 * a + 3), view.subarray(3 * b, 3 * b + 3));
  }

  drawGrid() {
    const { pen, scene } = this;
    const up = UP[this.options.up];
    const stage = [scene.low, scene.high].map((corner) => up.map((row) => row[0] * corner[0] + row[1] * corner[1] + row[2] * corner[2]));
    const low = stage[0].map((value, k) => Math.min(value, stage[1][k]));
    const high = stage[0].map((value, k) => Math.max(value, stage[1][k]));
    const step = roundStep((2 * scene.radius) / 14);
    const world = (s) => [0, 1, 2].map((k) => up[0][k] * s[0] + up[1][k] * s[1] + up[2][k] * s[2]);
    const origin = up.map((row) => row[0] * scene.origin[0] + row[1] * scene.origin[1] + row[2] * scene.origin[2]);
    const range = [0, 1].map((k) => [Math.floor((low[k] + origin[k]) / step - 0.5) * step - origin[k], Math.ceil((high[k] + origin[k]) / step + 0.5) * step - origin[k]]);
    const floor = low[2] - 0.03 * scene.radius;
    pen.beginPath();
    for (const [k, other] of [[0, 1], [1, 0]]) {
      const lines = Math.round((range[k][1] - range[k][0]) / step);
      for (let i = 0; i <= lines; i++) {
        const from = [0, 0, floor];
        from[k] = range[k][0] + i * step;
        const to = [...from];
        [from[other], to[other]] = range[other];
        this.segment(this.toView(...world(from)), this.toView(...world(to)));
      }
    }
    pen.lineWidth = 1;
    pen.strokeStyle = this.theme.grid;
    pen.stroke();
  }

  drawEdges() {
    const { scene, pen, view, edgeOrder } = this;
    const { bins, palette } = this.edgePaint;
    const { edges, m } = scene;
    const stride = this.stride(m, 400000);
    const levels = 4;
    const counts = new Uint32Array(EDGE_BINS * levels + 1);
    const key = (e) => bins[e] * levels + Math.min(levels - 1, Math.floor(levels * (1 - this.depth((view[3 * edges[2 * e] + 2] + view[3 * edges[2 * e + 1] + 2]) / 2))));
    const keys = (this.edgeKeys ||= new Uint8Array(m));
    for (let e = 0; e < m; e += stride) counts[(keys[e] = key(e)) + 1]++;
    for (let k = 1; k < counts.length; k++) counts[k] += counts[k - 1];
    const starts = counts.slice();
    for (let e = 0; e < m; e += stride) edgeOrder[counts[keys[e]]++] = e;
    pen.lineWidth = m > 20000 ? 0.6 : m > 3000 ? 0.9 : 1.3;
    const base = m > 20000 ? 0.5 : 0.9;
    for (let k = 0; k + 1 < starts.length; k++) {
      const near = (k % levels) / (levels - 1);
      const hot = Math.floor(k / levels) / (EDGE_BINS - 1);
      pen.strokeStyle = css(palette[Math.floor(k / levels)], Math.min(1, base * (0.35 + 0.65 * near) + 0.4 * hot));
      for (let from = starts[k]; from < starts[k + 1]; from += CHUNK) {
        pen.beginPath();
        for (let i = from; i < Math.min(from + CHUNK, starts[k + 1]); i++) {
          const e = edgeOrder[i];
          this.edgeSegment(edges[2 * e], edges[2 * e + 1]);
        }
        pen.stroke();
      }
    }
  }

  drawWorst() {
    const { pen, scene } = this;
    if (!scene.worst.length) return;
    const path = () => {
      pen.beginPath();
      for (const e of scene.worst) this.edgeSegment(scene.edges[2 * e], scene.edges[2 * e + 1]);
    };
    path();
    pen.lineWidth = 5;
    pen.strokeStyle = css(parseColour(this.theme.bad), 0.22);
    pen.stroke();
    path();
    pen.lineWidth = 2;
    pen.strokeStyle = this.theme.bad;
    pen.stroke();
  }

  drawDraws() {
    const { pen, scene } = this;
    const { count, nodes, stride, step, offset } = scene.draws;
    const { positions } = scene;
    const lines = stride === 1 ? scene.links.length : scene.isTrajectory ? nodes - 1 : 0;
    const skip = this.stride(count, Math.max(1, Math.floor(250000 / Math.max(1, lines))));
    const shown = Math.ceil(count / skip);
    pen.strokeStyle = css(parseColour(this.theme.ghost), Math.max(0.1, Math.min(0.45, 4 / shown)));
    pen.fillStyle = pen.strokeStyle;
    pen.lineWidth = scene.n > 500 ? 0.7 : 1;
    const place = (d, g) => {
      const at = 3 * (d * nodes + g);
      const p = 3 * g * stride;
      return this.toView(positions[p] + step * offset[at], positions[p + 1] + step * offset[at + 1], positions[p + 2] + step * offset[at + 2]);
    };
    const dot = scene.n > 500 ? 1 : 2.4;
    for (let d = 0; d < count; d += skip) {
      const points = Array.from({ length: nodes }, (_, g) => place(d, g));
      for (let from = 0; from < lines; from += CHUNK) {
        pen.beginPath();
        for (let i = from; i < Math.min(lines, from + CHUNK); i++) {
          const [a, b] = stride === 1 ? [scene.edges[2 * scene.links[i]], scene.edges[2 * scene.links[i] + 1]] : [i, i + 1];
          this.segment(points[a], points[b]);
        }
        pen.stroke();
      }
      if (lines && scene.n > 500) continue;
      for (const point of points) {
        const [sx, sy] = this.toScreen(point);
        pen.fillRect(sx - dot / 2, sy - dot / 2, dot, dot);
      }
    }
  }

  drawTruth() {
    const { pen, scene } = this;
    const { truth, edges } = scene;
    const at = (node) => this.toView(truth[3 * node], truth[3 * node + 1], truth[3 * node + 2]);
    const known = (node) => truth[3 * node] === truth[3 * node];
    pen.strokeStyle = this.theme.truth;
    pen.lineWidth = scene.n > 1000 ? 1 : 1.6;
    pen.globalAlpha = 0.9;
    const skip = this.stride(scene.links.length, 100000);
    for (let from = 0; from < scene.links.length; from += CHUNK * skip) {
      pen.beginPath();
      for (let i = from; i < Math.min(scene.links.length, from + CHUNK * skip); i += skip) {
        const [a, b] = [edges[2 * scene.links[i]], edges[2 * scene.links[i] + 1]];
        if (known(a) && known(b)) this.segment(at(a), at(b));
      }
      pen.stroke();
    }
    pen.globalAlpha = 0.45; // from each estimate to its truth
    pen.lineWidth = 0.8;
    pen.beginPath();
    const step = this.stride(scene.n, 4000);
    for (let i = 0; i < scene.n; i += step) if (known(i)) this.segment(this.view.subarray(3 * i, 3 * i + 3), at(i));
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Measured positions: a cross each, and a line to the node that it is about. */
  drawFixes() {
    const { pen, scene } = this;
    const { nodes, positions } = scene.fixes;
    pen.strokeStyle = this.theme.truth;
    pen.globalAlpha = 0.85;
    pen.lineWidth = 1.2;
    pen.beginPath();
    const skip = this.stride(nodes.length, 20000);
    for (let k = 0; k < nodes.length; k += skip) {
      const place = this.toView(positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]);
      this.segment(this.view.subarray(3 * nodes[k], 3 * nodes[k] + 3), place);
      const [sx, sy] = this.toScreen(place);
      pen.moveTo(sx - 4, sy);
      pen.lineTo(sx + 4, sy);
      pen.moveTo(sx, sy - 4);
      pen.lineTo(sx, sy + 4);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** A diamond around landmarks, a square around fixed nodes. */
  drawKinds() {
    const { pen, scene, x, y } = this;
    if (!scene.kind) return;
    const reach = this.nodeRadius() + 2.5;
    const skip = this.stride(scene.n, 20000);
    pen.strokeStyle = this.theme.ink;
    pen.globalAlpha = 0.8;
    pen.lineWidth = 1.1;
    pen.beginPath();
    for (let i = 0; i < scene.n; i += skip) {
      if (!scene.kind[i] || !(x[i] === x[i])) continue;
      const corners = scene.kind[i] === KINDS.fixed ? [[-1, -1], [1, -1], [1, 1], [-1, 1]] : [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]];
      corners.forEach(([cx, cy], k) => (k ? pen.lineTo : pen.moveTo).call(pen, x[i] + reach * cx, y[i] + reach * cy));
      pen.closePath();
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Half axes (two 2-D vectors) of the outline of a node's error ellipsoid on the screen; null if hidden. */
  outline(node, row) {
    const c = this.scene.ellipsoids.covariance;
    const { a, view, k } = this;
    const q = 1 + view[3 * node + 2] * k;
    if (q <= NEAR) return null;
    const w = this.camera.scale / q;
    // rows of the projection's Jacobian, in world coordinates
    const [px, py] = [(view[3 * node] * k) / q, (view[3 * node + 1] * k) / q];
    const gx = [a[0] - px * a[6], a[1] - px * a[7], a[2] - px * a[8]];
    const gy = [a[3] - py * a[6], a[4] - py * a[7], a[5] - py * a[8]];
    const j = 6 * row;
    const apply = (g) => [c[j] * g[0] + c[j + 1] * g[1] + c[j + 2] * g[2], c[j + 1] * g[0] + c[j + 3] * g[1] + c[j + 4] * g[2], c[j + 2] * g[0] + c[j + 4] * g[1] + c[j + 5] * g[2]];
    const dot = (u, v) => u[0] * v[0] + u[1] * v[1] + u[2] * v[2];
    const cx = apply(gx);
    const cy = apply(gy);
    const [sxx, sxy, syy] = [dot(gx, cx), dot(gx, cy), dot(gy, cy)];
    const mean = (sxx + syy) / 2;
    const gap = Math.hypot((sxx - syy) / 2, sxy);
    const grow = w * this.options.level * this.options.factor;
    const long = grow * Math.sqrt(Math.max(0, mean + gap));
    const short = Math.max(grow * Math.sqrt(Math.max(0, mean - gap)), 0.4);
    const angle = 0.5 * Math.atan2(2 * sxy, sxx - syy);
    const [cos, sin] = [Math.cos(angle), -Math.sin(angle)]; // the screen's y points down
    return { long, short, angle: -angle, u: [long * cos, long * sin], v: [-short * sin, short * cos] };
  }

  drawEllipsoids() {
    const { pen, scene, order, x, y } = this;
    const { bins } = this.nodePaint;
    const total = scene.ellipsoids.nodes.length;
    const skip = this.stride(total, MOST_ELLIPSOIDS);
    const few = total <= 80;
    const crisp = total / skip <= 1500 && !this.moving || few;
    const atlas = this.atlas();
    pen.globalAlpha = few ? 0.85 : total > 1000 ? 0.5 : 0.7;
    for (let i = 0; i < order.length; i++) {
      const node = order[i];
      const row = scene.rowOf[node];
      if (row < 0 || row % skip) continue;
      const shape = this.outline(node, row);
      if (!shape || shape.long < 0.8 || shape.long > 50 * this.width) continue;
      if (x[node] + shape.long < 0 || x[node] - shape.long > this.width || y[node] + shape.long < 0 || y[node] - shape.long > this.height) continue;
      const r = this.ratio;
      pen.setTransform(r * shape.u[0], r * shape.u[1], r * shape.v[0], r * shape.v[1], r * x[node], r * y[node]);
      pen.drawImage(atlas.balls, 0, SPRITE * bins[node], SPRITE, SPRITE, -SPRITE / (SPRITE - 4), -SPRITE / (SPRITE - 4), (2 * SPRITE) / (SPRITE - 4), (2 * SPRITE) / (SPRITE - 4));
      pen.setTransform(r, 0, 0, r, 0, 0);
      if (crisp && shape.long > 3) {
        pen.beginPath();
        pen.ellipse(x[node], y[node], shape.long, shape.short, shape.angle, 0, 2 * Math.PI);
        pen.lineWidth = few ? 1.2 : 0.8;
        pen.strokeStyle = css(this.nodePaint.palette[bins[node]], few ? 0.9 : 0.5);
        pen.stroke();
      }
      if (few && shape.long > 8 && !scene.planar) this.drawRings(node, this.nodePaint.palette[bins[node]]);
    }
    pen.globalAlpha = 1;
  }

  /** The three principal great circles of an error ellipsoid. */
  drawRings(node, colour) {
    const { pen, scene, a, x, y } = this;
    const w = (this.camera.scale * this.options.level * this.options.factor) / (1 + this.view[3 * node + 2] * this.k);
    const ends = scene.principal(node).map(({ sigma, direction: d }) => [
      w * sigma * (a[0] * d[0] + a[1] * d[1] + a[2] * d[2]),
      -w * sigma * (a[3] * d[0] + a[4] * d[1] + a[5] * d[2]),
    ]);
    const r = this.ratio;
    pen.lineWidth = 0.7;
    pen.strokeStyle = css(colour, 0.55);
    for (const [p, q] of [[0, 1], [0, 2], [1, 2]]) {
      pen.beginPath();
      pen.setTransform(r * ends[p][0], r * ends[p][1], r * ends[q][0], r * ends[q][1], r * x[node], r * y[node]);
      pen.arc(0, 0, 1, 0, 2 * Math.PI);
      pen.setTransform(r, 0, 0, r, 0, 0);
      pen.stroke();
    }
  }

  nodeRadius() {
    const { n } = this.scene;
    const base = n <= 60 ? 5 : n <= 600 ? 3.6 : n <= 6000 ? 2.5 : n <= 20000 ? 1.5 : 1;
    return this.options.poses === "dots" ? base : Math.min(base, 2.2);
  }

  /** Pictures of dots and of shaded balls, one row per palette colour. */
  atlas() {
    if (this.sprites) return this.sprites;
    const { palette } = this.nodePaint;
    const radius = this.nodeRadius();
    const cell = Math.ceil(2 * (radius + 1.5) * this.ratio);
    const sheet = (size, paint) => {
      const canvas = document.createElement("canvas");
      canvas.width = size;
      canvas.height = size * palette.length;
      const pen = canvas.getContext("2d");
      palette.forEach((colour, k) => { pen.setTransform(1, 0, 0, 1, size / 2, size * (k + 0.5)); paint(pen, colour); });
      return canvas;
    };
    const dots = sheet(cell, (pen, colour) => {
      pen.beginPath();
      pen.arc(0, 0, radius * this.ratio, 0, 2 * Math.PI);
      pen.fillStyle = css(colour);
      pen.fill();
      pen.lineWidth = (radius > 3 ? 1 : 0.7) * this.ratio;
      pen.strokeStyle = this.theme.outline;
      pen.stroke();
    });
    const ball = SPRITE / 2 - 2;
    const balls = sheet(SPRITE, (pen, colour) => {
      const light = colour.map((value) => value + (255 - value) * 0.55);
      const shade = pen.createRadialGradient(-0.3 * ball, -0.35 * ball, 0.05 * ball, 0, 0, ball);
      shade.addColorStop(0, css(light, 0.3));
      shade.addColorStop(0.75, css(colour, 0.34));
      shade.addColorStop(1, css(colour, 0.58));
      pen.beginPath();
      pen.arc(0, 0, ball, 0, 2 * Math.PI);
      pen.fillStyle = shade;
      pen.fill();
    });
    this.sprites = { dots, balls, cell, radius };
    return this.sprites;
  }

  drawNodes() {
    const { pen, order, x, y, scene, view } = this;
    const { bins } = this.nodePaint;
    const stride = this.stride(scene.n, 300000);
    if (scene.n > 20000) {
      this.drawManyNodes(stride);
      return;
    }
    const { dots, cell } = this.atlas();
    const size = cell / this.ratio;
    let alpha = -1;
    for (let i = 0; i < order.length; i += stride) {
      const node = order[i];
      const [sx, sy] = [x[node], y[node]];
      if (!(sx > -9 && sx < this.width + 9 && sy > -9 && sy < this.height + 9)) continue;
      const level = 1 - 0.12 * Math.floor(4.99 * this.depth(view[3 * node + 2]));
      if (level !== alpha) pen.globalAlpha = alpha = level;
      pen.drawImage(dots, 0, cell * bins[node], cell, cell, sx - size / 2, sy - size / 2, size, size);
    }
    pen.globalAlpha = 1;
  }

  /** Squares, slab by slab from far to near, and within a slab colour by colour: few changes of the pen. */
  drawManyNodes(stride) {
    const { pen, order, x, y } = this;
    const { bins, palette } = this.nodePaint;
    const size = 2 * this.nodeRadius();
    const slab = Math.ceil(order.length / 16);
    for (let from = 0; from < order.length; from += slab) {
      const to = Math.min(order.length, from + slab);
      for (let k = 0; k < palette.length; k++) {
        pen.fillStyle = css(palette[k]);
        for (let i = from; i < to; i += stride) {
          const node = order[i];
          if (bins[node] === k && x[node] === x[node]) pen.fillRect(x[node] - size / 2, y[node] - size / 2, size, size);
        }
      }
    }
  }

  drawAxes() {
    const { pen, scene } = this;
    const length = 0.45 * scene.spacing;
    const stride = this.stride(scene.n, MOST_CAMERAS);
    for (let axis = 0; axis < 3; axis++) {
      pen.beginPath();
      for (let i = 0; i < scene.n; i += stride) {
        const r = scene.rotation(i);
        const p = [scene.positions[3 * i], scene.positions[3 * i + 1], scene.positions[3 * i + 2]];
        this.segment(this.view.subarray(3 * i, 3 * i + 3), this.toView(p[0] + length * r[axis], p[1] + length * r[3 + axis], p[2] + length * r[6 + axis]));
      }
      pen.lineWidth = scene.n > 600 ? 1 : 1.8;
      pen.strokeStyle = AXIS_COLOURS[axis];
      pen.stroke();
    }
  }

  /** Pyramids that open along +z, the viewing direction; the tick stands on the image's upper side (−y). */
  drawCameras() {
    const { pen, scene } = this;
    const s = 0.42 * scene.spacing;
    const corners = [[-0.6, -0.45, 0.8], [0.6, -0.45, 0.8], [0.6, 0.45, 0.8], [-0.6, 0.45, 0.8], [-0.25, -0.5, 0.8], [0, -0.72, 0.8], [0.25, -0.5, 0.8]];
    const lines = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6]];
    const stride = this.stride(scene.n, MOST_CAMERAS);
    const { bins, palette } = this.nodePaint;
    pen.lineWidth = scene.n > 600 ? 0.8 : 1.3;
    for (let k = 0; k < palette.length; k++) {
      pen.beginPath();
      for (let i = 0; i < scene.n; i += stride) {
        if (bins[i] !== k) continue;
        const r = scene.rotation(i);
        const points = corners.map(([cx, cy, cz]) => this.toView(
          ...[0, 1, 2].map((axis) => scene.positions[3 * i + axis] + s * (r[3 * axis] * cx + r[3 * axis + 1] * cy + r[3 * axis + 2] * cz))));
        const apex = this.view.subarray(3 * i, 3 * i + 3);
        for (let c = 0; c < 4; c++) this.segment(apex, points[c]);
        for (const [p, q] of lines) this.segment(points[p], points[q]);
      }
      pen.strokeStyle = css(palette[k].map((value) => Math.round(value * 0.9)));
      pen.stroke();
    }
  }

  drawMarked(thing, strong) {
    if (!thing) return;
    const { pen, scene, x, y } = this;
    pen.strokeStyle = strong ? this.theme.accent : this.theme.ink;
    pen.lineWidth = strong ? 2.4 : 1.6;
    if (thing.kind === "edge") {
      pen.beginPath();
      this.edgeSegment(scene.edges[2 * thing.index], scene.edges[2 * thing.index + 1]);
      pen.lineWidth += 1;
      pen.stroke();
      return;
    }
    const node = thing.index;
    if (!(x[node] === x[node])) return;
    if (strong && scene.ellipsoids && scene.rowOf[node] >= 0 && this.options.ellipsoids) {
      for (const level of [1, 2, 3]) {
        const kept = this.options.level;
        this.options.level = level;
        const shape = this.outline(node, scene.rowOf[node]);
        this.options.level = kept;
        if (!shape || shape.long > 50 * this.width) continue;
        pen.beginPath();
        pen.ellipse(x[node], y[node], shape.long, shape.short, shape.angle, 0, 2 * Math.PI);
        pen.lineWidth = level === kept ? 1.6 : 0.9;
        pen.setLineDash(level === kept ? [] : [4, 3]);
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.lineWidth = 2.4;
    }
    pen.beginPath();
    pen.arc(x[node], y[node], this.nodeRadius() + 4, 0, 2 * Math.PI);
    pen.stroke();
  }

  // ── legend ───────────────────────────────────────────────────────────────────────────────────────────────

  write(text, x, y, { colour = this.theme.soft, align = "left", weight = 400, size = 12 } = {}) {
    const { pen } = this;
    pen.font = `${weight} ${size}px ${this.font}`;
    pen.textAlign = align;
    pen.textBaseline = "alphabetic";
    pen.lineWidth = 3;
    pen.strokeStyle = this.theme.stage; // a halo keeps text readable over the graph
    pen.strokeText(text, x, y);
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
  }

  drawTriad() {
    const { pen, a } = this;
    const [cx, cy] = [this.width - 52, this.height - 50];
    const axes = [0, 1, 2].map((k) => ({ k, x: 26 * a[k], y: -26 * a[3 + k], away: a[6 + k] }));
    axes.sort((p, q) => q.away - p.away);
    for (const { k, x, y } of axes) {
      pen.beginPath();
      pen.moveTo(cx, cy);
      pen.lineTo(cx + x, cy + y);
      pen.lineWidth = 2;
      pen.strokeStyle = AXIS_COLOURS[k];
      pen.stroke();
      if (Math.hypot(x, y) > 6) this.write("xyz"[k], cx + 1.35 * x, cy + 1.35 * y + 4, { colour: AXIS_COLOURS[k], align: "center", weight: 600 });
    }
  }

  drawScaleBar() {
    const { pen, scene } = this;
    if (scene.layout === "directions") return;
    let length = roundStep(70 / this.camera.scale);
    if (length * this.camera.scale > 150) length /= 2;
    const pixels = length * this.camera.scale;
    const [left, bottom] = [18, this.height - 20];
    pen.beginPath();
    pen.moveTo(left, bottom - 5);
    pen.lineTo(left, bottom);
    pen.lineTo(left + pixels, bottom);
    pen.lineTo(left + pixels, bottom - 5);
    pen.lineWidth = 5;
    pen.strokeStyle = this.theme.stage;
    pen.stroke();
    pen.lineWidth = 1.4;
    pen.strokeStyle = this.theme.soft;
    pen.stroke();
    this.write(withUnit(tickText(length), scene.unit || (length === 1 ? "unit" : "units")), left + pixels / 2, bottom - 8, { align: "center" });
  }

  /** Where the legend ends; on small screens it begins below the view buttons. */
  legendBox() {
    const entries = this.legendEntries();
    const top = this.width < 620 ? 48 : 8;
    const height = entries.reduce((sum, entry) => sum + entry.height, 0);
    return { entries, top, right: entries.length ? 240 : 0, bottom: entries.length ? top + height + 12 : 0 };
  }

  drawLegend() {
    const { entries, top, right, bottom } = this.legendBox();
    if (!entries.length) return;
    const { pen } = this;
    pen.globalAlpha = 0.86;
    pen.fillStyle = this.theme.stage;
    pen.beginPath();
    pen.roundRect(8, top, right - 8, bottom - top, 8);
    pen.fill();
    pen.globalAlpha = 1;
    let y = top + 6;
    for (const entry of entries) {
      entry.draw(18, y);
      y += entry.height;
    }
  }

  legendEntries() {
    const { options, scene, theme } = this;
    const entries = [];
    if (options.colour === "component") {
      const count = new Map();
      for (const c of scene.component) count.set(c, (count.get(c) || 0) + 1);
      const listed = [...count].sort((p, q) => q[1] - p[1]).slice(0, 8);
      for (const [component, nodes] of listed) entries.push(this.key(CATEGORIES[component % CATEGORIES.length], `component ${component}: ${plural(nodes, "node")}`, true));
      if (count.size > listed.length) entries.push(this.line(`and ${count.size - listed.length} smaller components`));
    } else if (options.colour !== "none") {
      const name = options.colour === "sigma_pos" ? "position σ" : "rotation σ";
      const unit = options.colour === "sigma_pos" ? scene.unit : "°";
      const most = scene[options.colour].reduce((p, q) => (q > p ? q : p), -Infinity);
      entries.push(this.bar(name, unit, scene.limits[options.colour], VIRIDIS, most));
    }
    if (options.edges && options.edgeColour !== "none" && scene.m) {
      const names = { edge_outlier: ["probability that an edge is wrong", ""], edge_surprise: ["edge surprise, 1 = as expected", ""], edge_rotation_deg: ["rotation residual", "°"], edge_translation: ["translation residual", scene.unit] };
      const [name, unit] = names[options.edgeColour];
      entries.push(this.bar(name, unit, scene.edgeLimits(options.edgeColour), edgeStops(theme), Infinity, options.edgeColour === "edge_surprise"));
    }
    if (options.worst && scene.worst.length) entries.push(this.key(theme.bad, scene.edge_outlier ? plural(scene.worst.length, scene.worstName()) : scene.edge_surprise ? `${plural(scene.worst.length, "worst edge")}, above ${WORST_ABOVE}` : `${plural(scene.worst.length, "edge")} of largest angle`));
    if (options.ellipsoids && scene.ellipsoids) entries.push(this.line(`${scene.planar ? "ellipses" : "ellipsoids"}: ${options.level}σ${options.factor > 1 ? `, enlarged ×${tickText(options.factor)}` : ", true size"}`));
    if (options.fixes && scene.fixes) entries.push(this.key(theme.truth, plural(scene.fixes.nodes.length, "measured position")));
    if (scene.counts.landmark) entries.push(this.line(`◇ ${plural(scene.counts.landmark, "landmark")}`));
    if (scene.counts.fixed) entries.push(this.line(`□ ${plural(scene.counts.fixed, "fixed node")}`));
    if (options.draws && scene.draws) entries.push(this.key(theme.ghost, `${scene.draws.count} posterior draws`));
    if (options.truth && scene.truth) entries.push(this.key(theme.truth, "ground truth"));
    if (scene.layout === "directions") entries.push(this.line("no positions: viewing directions"), this.line("on the unit sphere"));
    return entries;
  }

  line(text) {
    return { height: 18, draw: (x, y) => this.write(text, x, y + 13) };
  }

  key(colour, text, round = false) {
    const draw = (x, y) => {
      this.pen.fillStyle = colour;
      this.pen.beginPath();
      if (round) this.pen.arc(x + 7, y + 9, 4.5, 0, 2 * Math.PI);
      else this.pen.roundRect(x, y + 7.5, 14, 3, 1.5);
      this.pen.fill();
      this.write(text, x + 21, y + 13);
    };
    return { height: 18, draw };
  }

  bar(name, unit, [low, high], stops, most, open = false) {
    const wide = 196;
    const draw = (x, y) => {
      const { pen } = this;
      this.write(unit ? `${name} [${unit}]` : name, x, y + 12, { colour: this.theme.ink, weight: 600 });
      const shade = pen.createLinearGradient(x, 0, x + wide, 0);
      stops.forEach((stop, k) => shade.addColorStop(k / (stops.length - 1), stop));
      pen.fillStyle = shade;
      pen.beginPath();
      pen.roundRect(x, y + 18, wide, 9, 3);
      pen.fill();
      const marks = ticks(low, high, 3);
      for (const mark of marks) {
        const at = x + (wide * (mark - low)) / (high - low);
        pen.fillStyle = this.theme.faint;
        pen.fillRect(at - 0.5, y + 27, 1, 3);
        const edge = open && mark === high ? `≥ ${tickText(mark)}` : open && mark === low ? `≤ ${tickText(mark)}` : tickText(mark);
        const align = at < x + 12 ? "left" : at > x + wide - 12 ? "right" : "center";
        this.write(edge, align === "left" ? x : align === "right" ? x + wide : at, y + 42, { size: 11.5, align });
      }
      if (Number.isFinite(most) && most > high * 1.001) this.write(`max ${number(most)}`, x + wide, y + 12, { align: "right", size: 11.5 });
    };
    return { height: 52, draw };
  }

  // ── input ────────────────────────────────────────────────────────────────────────────────────────────────

  /** The node or edge under a point of the canvas, nodes first. */
  pick(px, py) {
    const { x, y, view, scene } = this;
    let best = null;
    let least = Infinity;
    const reach = this.nodeRadius() + 6;
    for (let i = 0; i < scene.n; i++) {
      const away = Math.hypot(x[i] - px, y[i] - py);
      if (!(away < reach)) continue;
      const cost = away + 4 * this.depth(view[3 * i + 2]);
      if (cost < least) { least = cost; best = { kind: "node", index: i }; }
    }
    if (best || !this.options.edges) return best;
    least = 5;
    for (let e = 0; e < scene.m; e++) {
      const [a, b] = [scene.edges[2 * e], scene.edges[2 * e + 1]];
      const [dx, dy] = [x[b] - x[a], y[b] - y[a]];
      const t = Math.max(0, Math.min(1, ((px - x[a]) * dx + (py - y[a]) * dy) / (dx * dx + dy * dy || 1)));
      const away = Math.hypot(px - x[a] - t * dx, py - y[a] - t * dy) - (scene.isWorst.has(e) && this.options.worst ? 2 : 0);
      if (away < least) { least = away; best = { kind: "edge", index: e }; }
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let travelled = 0;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      travelled = pointers.size > 1 ? 99 : 0;
      cancelAnimationFrame(this.flight);
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event);
      const before = pointers.get(event.pointerId);
      if (!before) return this.point(now);
      pointers.set(event.pointerId, now);
      const [dx, dy] = [now.x - before.x, now.y - before.y];
      travelled += Math.abs(dx) + Math.abs(dy);
      if (travelled < 4) return;
      canvas.classList.add("dragging");
      this.on.hover(null);
      this.hover = null;
      if (pointers.size === 2) this.pinch([...pointers.entries()].find(([id]) => id !== event.pointerId)[1], before, now);
      else if (this.scene.planar || event.shiftKey || event.buttons & 6) this.pan(dx, dy);
      else this.orbit(0.0065 * dx, 0.0065 * dy);
    });
    const lift = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove("dragging");
      if (event.type === "pointerup" && travelled < 4 && event.button === 0) this.select(this.pick(place(event).x, place(event).y));
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => { this.hover = null; this.on.hover(null); this.invalidate(); });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.show("reset"));
    canvas.addEventListener("wheel", (event) => this.wheel(event, place(event)), { passive: false });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readTheme());
    window.addEventListener("beforeprint", () => { this.readTheme(); this.resize(); });
    window.addEventListener("afterprint", () => { this.readTheme(); this.resize(); });
  }

  point(at) {
    const found = this.pick(at.x, at.y);
    this.canvas.classList.toggle("pointing", Boolean(found));
    if (found?.kind !== this.hover?.kind || found?.index !== this.hover?.index) {
      this.hover = found;
      this.invalidate();
    }
    this.on.hover(found, at);
  }

  pinch(still, before, now) {
    const old = Math.hypot(before.x - still.x, before.y - still.y);
    const fresh = Math.hypot(now.x - still.x, now.y - still.y);
    this.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    this.zoom(fresh / Math.max(1, old), (still.x + now.x) / 2, (still.y + now.y) / 2);
  }

  /** The wheel scrolls the page until the view is clicked: a report is read from top to bottom. */
  wheel(event, at) {
    if (document.activeElement !== this.canvas && !event.ctrlKey && !document.fullscreenElement) return this.on.hint();
    event.preventDefault();
    this.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) * (event.ctrlKey ? 0.008 : 0.0016)), at.x, at.y);
  }

  onKey(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const names = { 0: "reset", 1: "top", 2: "front", 3: "side" };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows[event.key]) {
      const [dx, dy] = arrows[event.key];
      if (this.scene.planar || event.shiftKey) this.pan(30 * dx, 30 * dy);
      else this.orbit(0.08 * dx, 0.08 * dy);
    } else if (names[event.key]) this.show(names[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.2);
    else if (event.key === "-") this.zoom(1 / 1.2);
    else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
  }
}
