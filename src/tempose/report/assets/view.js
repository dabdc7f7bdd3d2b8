// What the views of a graph and of a cloud of points share: a camera that orbits, two canvases, input by mouse, touch and keys.
//
// Coordinates: world (relative to the origin) → view (right, up, away from the viewer) → screen (CSS pixels). The stage is the world
// turned so that z is up. Perspective is 1 / (1 + away · near), so that near = 0 is an orthographic view of the same scale.
//
// Below, a painter draws the layers (painter.js); above, a 2-D canvas has what is marked, the legend and all text, and takes the input.

const ANGLES = {
  reset: { yaw: 0.6, pitch: 0.5, perspective: 1 },
  top: { yaw: 0, pitch: Math.PI / 2, perspective: 0 },
  front: { yaw: 0, pitch: 0, perspective: 0 },
  side: { yaw: Math.PI / 2, pitch: 0, perspective: 0 },
};
const THEME = ["stage", "card", "line", "ink", "soft", "faint", "accent", "grid", "edge", "outline", "ghost", "truth", "bad"];
const AXIS_COLOURS = ["#d9483b", "#3a9a4b", "#3f6fe0"];
const DEEPEST = 3e4; // times that the whole can be enlarged: more, and single precision shows
const isTouch = () => matchMedia("(pointer: coarse)").matches;

/** A view of `space`: low, high, radius, origin, unit, isFlat (seen from above only), isMetric, stage (rows right, back, up). */
class View {
  constructor(canvas, space, things, on) {
    Object.assign(this, { canvas, space, on, hover: null, selected: null, detail: 1, kept: new Map() });
    this.pen = canvas.getContext("2d");
    this.painter = makePainter(canvas, things);
    this.painter.canvas.addEventListener("webglcontextlost", () => { this.painter = makePainter(canvas, 0); this.invalidate(); });
    this.camera = { ...ANGLES.reset, target: [0, 0, 0], scale: 1 };
  }

  /** Begin, once the layers can be made. */
  start() {
    document.documentElement.style.setProperty("--above", `${byId("viewer").offsetTop}px`); // the picture ends with the first screen
    this.readTheme();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.resize();
    this.show("reset", false);
  }

  // What a view has of its own:
  /** Layers from back to front. */
  layers() { return []; }
  /** Places (three numbers each) that the first view shows. */
  placesToShow() { return new Float32Array(0); }
  /** What is under a point of the canvas, or null. */
  pick() { return null; }
  /** Marks above the layers. */
  drawMarks() {}
  legendEntries() { return []; }

  // ── state ────────────────────────────────────────────────────────────────────────────────────────────────

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    this.theme = Object.fromEntries(THEME.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.getPropertyValue("--sans");
    this.change();
  }

  /** Layers have to be made again; `names` of arrays to forget, all by default. */
  change(...names) {
    if (!names.length) this.kept.clear();
    for (const name of names) this.kept.delete(name);
    this.made = null;
    this.legend = null;
    this.invalidate();
  }

  /** The array of this name, made when first asked for. */
  keep(name, make_) {
    if (!this.kept.has(name)) this.kept.set(name, make_());
    return this.kept.get(name);
  }

  select(thing, fly = false) {
    this.selected = thing;
    if (thing && fly) this.flyTo(thing);
    this.on.select?.(thing);
    this.invalidate();
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
    this.change("nodes");
    this.draw(); // at once: a resized canvas is blank
  }

  // ── camera ───────────────────────────────────────────────────────────────────────────────────────────────

  /** View axes (right, up, away) in world coordinates, nine numbers. */
  axes({ yaw, pitch } = this.camera) {
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const rows = [[cy, sy, 0], [-sp * sy, sp * cy, cp], [-cp * sy, cp * cy, -sp]];
    const { stage } = this.space;
    return rows.flatMap((row) => [0, 1, 2].map((k) => row[0] * stage[0][k] + row[1] * stage[1][k] + row[2] * stage[2][k]));
  }

  nearness({ perspective, scale } = this.camera) {
    return (perspective * scale) / (2.2 * Math.max(this.width, this.height));
  }

  lens() {
    const { camera, space } = this;
    const { target, scale } = camera;
    return { axes: this.axes(), target, scale, near: this.nearness(), reach: space.radius, width: this.width, height: this.height, ratio: this.ratio, isMoving: Boolean(this.moving) };
  }

  show(name, animate = true) {
    this.moveTo(this.fitted(this.angles(this.space.isFlat ? "top" : name)), animate); // a plane is seen from above
  }

  angles(name) {
    return ANGLES[name];
  }

  /** The camera with these angles that has everything in the picture, beside the legend if it must. */
  fitted(view) {
    const a = this.axes(view);
    const { low, high, radius } = this.space;
    const camera = { ...view, target: low.map((value, k) => (value + high[k]) / 2), scale: Math.min(this.width, this.height) / (2.4 * radius) };
    const places = this.placesToShow();
    if (places.length <= 3) return { ...camera, scale: 2 * camera.scale };
    const fit = (left, top) => {
      for (let round = 0; round < 12; round++) this.refine(camera, a, places, left, top);
    };
    fit(0, 0);
    const legend = this.legendBox();
    if (!this.anyInside(camera, a, places, legend.right, legend.bottom)) return camera;
    if (this.width > 2.5 * legend.right) fit(legend.right, 0);
    else fit(0, Math.min(legend.bottom, 0.4 * this.height));
    return camera;
  }

  /** Shift and scale a camera until the picture of the places fills the canvas right of `left`, below `top`. */
  refine(camera, a, places, left, top) {
    const low = [Infinity, Infinity];
    const high = [-Infinity, -Infinity];
    this.eachPlace(camera, a, places, (x, y) => {
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

  /** Call `visit` with each place on the screen, from the canvas' centre. */
  eachPlace(camera, a, places, visit) {
    const [tx, ty, tz] = camera.target;
    const near = this.nearness(camera);
    const step = 3 * Math.max(1, Math.floor(places.length / 3 / 20000));
    for (let j = 0; j < places.length; j += step) {
      const dx = places[j] - tx, dy = places[j + 1] - ty, dz = places[j + 2] - tz;
      const w = camera.scale / Math.max(NEAR, 1 + near * (a[6] * dx + a[7] * dy + a[8] * dz));
      visit(w * (a[0] * dx + a[1] * dy + a[2] * dz), -w * (a[3] * dx + a[4] * dy + a[5] * dz));
    }
  }

  anyInside(camera, a, places, right, bottom) {
    let found = false;
    this.eachPlace(camera, a, places, (x, y) => { found ||= x + this.width / 2 < right && y + this.height / 2 < bottom; });
    return found;
  }

  /** Fly to a place so that `reach` around it fills the picture; never away from it. */
  flyToPlace(target, reach) {
    const wanted = Math.min(this.width, this.height) / (2 * Math.min(reach, this.space.radius));
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
    if (this.space.isFlat) return;
    const { camera } = this;
    camera.yaw -= dx;
    camera.pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, camera.pitch + dy));
    camera.perspective = Math.max(camera.perspective, Math.min(1, camera.perspective + 0.06));
    this.touch();
  }

  pan(dx, dy) {
    const a = this.axes();
    const { target, scale } = this.camera;
    this.camera.target = target.map((value, k) => value - (a[k] * dx - a[3 + k] * dy) / scale);
    this.touch();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const fit = Math.min(this.width, this.height) / this.space.radius;
    const scale = Math.max(0.05 * fit, Math.min(DEEPEST * fit, this.camera.scale * factor));
    const change = scale / this.camera.scale;
    this.pan((x - this.width / 2) * (1 - change) / change, (y - this.height / 2) * (1 - change) / change);
    this.camera.scale = scale;
    this.touch();
  }

  /** View coordinates of a world point. */
  toView(px, py, pz) {
    const { axes: a, target } = this.seen;
    const [dx, dy, dz] = [px - target[0], py - target[1], pz - target[2]];
    return [a[0] * dx + a[1] * dy + a[2] * dz, a[3] * dx + a[4] * dy + a[5] * dz, a[6] * dx + a[7] * dy + a[8] * dz];
  }

  toScreen([vx, vy, vz]) {
    const w = this.seen.scale / Math.max(NEAR, 1 + vz * this.seen.near);
    return [this.width / 2 + w * vx, this.height / 2 - w * vy];
  }

  /** Add the part of a segment (in view coordinates) that lies before the viewer to the current path of the pen. */
  segment(p, q) {
    const [one, two] = [1 + p[2] * this.seen.near, 1 + q[2] * this.seen.near];
    if (one < NEAR && two < NEAR) return;
    if (one < NEAR || two < NEAR) {
      const t = (NEAR - one) / (two - one);
      const cut = p.map((value, k) => value + t * (q[k] - value));
      if (one < NEAR) p = cut;
      else q = cut;
    }
    this.pen.moveTo(...this.toScreen(p));
    this.pen.lineTo(...this.toScreen(q));
  }

  /** Places on the screen (x, y each) of many; NaN behind the viewer. */
  projected(places) {
    const { axes: a, target, scale, near } = this.seen;
    const out = new Float32Array((2 * places.length) / 3);
    for (let j = 0, k = 0; j < places.length; j += 3, k += 2) {
      const dx = places[j] - target[0], dy = places[j + 1] - target[1], dz = places[j + 2] - target[2];
      const q = 1 + near * (a[6] * dx + a[7] * dy + a[8] * dz);
      const w = q > NEAR ? scale / q : NaN;
      out[k] = this.width / 2 + w * (a[0] * dx + a[1] * dy + a[2] * dz);
      out[k + 1] = this.height / 2 - w * (a[3] * dx + a[4] * dy + a[5] * dz);
    }
    return out;
  }

  /** The place nearest to a point of the canvas, of those within `reach`, or −1; nearer ones count as closer. */
  nearest(places, screen, px, py, reach) {
    const { axes: a, target, reach: radius } = this.seen;
    let best = -1;
    let least = Infinity;
    for (let i = 0; 2 * i < screen.length; i++) {
      const dx = screen[2 * i] - px, dy = screen[2 * i + 1] - py;
      const away = dx * dx + dy * dy;
      if (!(away < reach * reach)) continue;
      const depth = a[6] * (places[3 * i] - target[0]) + a[7] * (places[3 * i + 1] - target[1]) + a[8] * (places[3 * i + 2] - target[2]);
      const cost = Math.sqrt(away) + (2 * depth) / radius;
      if (cost < least) { least = cost; best = i; }
    }
    return best;
  }

  // ── frames ───────────────────────────────────────────────────────────────────────────────────────────────

  /** Something moves: draw soon with as much detail as keeps up, and in full once it rests. */
  touch() {
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => { this.moving = false; this.invalidate(); }, 170);
    this.invalidate();
  }

  invalidate() {
    this.frame ||= requestAnimationFrame(() => this.onFrame());
  }

  onFrame() {
    this.frame = 0;
    const begin = performance.now();
    if (this.pointed) this.point(this.pointed);
    this.pointed = null;
    this.draw();
    const spent = performance.now() - begin;
    if (!this.moving || this.painter.isFast) return;
    if (spent > 28) this.detail = Math.max(0.15, this.detail * 0.75);
    else if (spent < 14) this.detail = Math.min(1, this.detail * 1.08);
  }

  draw() {
    if (!this.width) return;
    const { pen, painter } = this;
    this.seen = this.lens();
    this.made ||= this.layers();
    painter.begin(this.seen, parseColour(this.theme.stage));
    let stride = 1;
    for (const layer of this.made) {
      if (this.moving && !painter.isFast && layer.colour.length > 4000) stride = Math.max(1, Math.round(1 / this.detail)); // of more than 1000 things
      painter.draw(layer, layer.colour.length > 4000 ? stride : 1);
    }
    this.canvas.parentElement.dataset.drawn = (1 / stride).toFixed(2);
    painter.end();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.globalAlpha = 1;
    pen.lineCap = "round";
    this.drawMarks();
    this.drawTriad();
    this.drawScaleBar();
    this.drawLegend();
  }

  /** The picture as it is, both canvases in one. */
  picture() {
    this.draw();
    const sheet = make("canvas", { width: this.canvas.width, height: this.canvas.height });
    const pen = sheet.getContext("2d");
    for (const canvas of [this.painter.canvas, this.canvas]) pen.drawImage(canvas, 0, 0);
    return sheet;
  }

  /** A grid below everything, with lines at round coordinates. */
  grid() {
    const { low, high, radius, origin, stage } = this.space;
    const turned = (p) => stage.map((row) => row[0] * p[0] + row[1] * p[1] + row[2] * p[2]);
    const corners = [low, high].map(turned);
    const [from, to] = [Math.min, Math.max].map((pick) => corners[0].map((value, k) => pick(value, corners[1][k])));
    const step = roundStep((2 * radius) / 14);
    const start = turned(origin);
    const range = [0, 1].map((k) => [Math.floor((from[k] + start[k]) / step - 0.5) * step - start[k], Math.ceil((to[k] + start[k]) / step + 0.5) * step - start[k]]);
    const floor = from[2] - 0.03 * radius;
    const places = [];
    for (const [k, other] of [[0, 1], [1, 0]]) {
      const lines = Math.round((range[k][1] - range[k][0]) / step);
      for (let i = 0; i <= lines; i++) {
        for (const end of range[other]) {
          const s = [0, 0, floor];
          s[k] = range[k][0] + i * step;
          s[other] = end;
          for (let axis = 0; axis < 3; axis++) places.push(stage[0][axis] * s[0] + stage[1][axis] * s[1] + stage[2][axis] * s[2]);
        }
      }
    }
    return { kind: "strokes", places: Float32Array.from(places), colour: allPainted(places.length / 6, parseColour(this.theme.grid)), width: 1 };
  }

  // ── legend ───────────────────────────────────────────────────────────────────────────────────────────────

  write(text, x, y, { colour = this.theme.soft, align = "left", weight = 400, size = 12 } = {}) {
    const { pen } = this;
    pen.font = `${weight} ${size}px ${this.font}`;
    pen.textAlign = align;
    pen.textBaseline = "alphabetic";
    pen.lineWidth = 3;
    pen.strokeStyle = this.theme.stage; // a halo keeps text readable over the picture
    pen.strokeText(text, x, y);
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
  }

  drawTriad() {
    const { pen } = this;
    const a = this.seen.axes;
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
    const { pen, space } = this;
    if (!space.isMetric) return;
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
    const unit = space.unit === "units" && length === 1 ? "unit" : space.unit || "units";
    this.write(withUnit(tickText(length), unit), left + pixels / 2, bottom - 8, { align: "center" });
  }

  /** Where the legend ends; on small screens it begins below the view buttons. */
  legendBox() {
    this.legend ||= this.legendEntries();
    const entries = this.legend;
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

  /** A colour scale; `open` ends hold all beyond them, `log` takes the ends' logarithms. */
  bar(name, unit, [low, high], stops, { most = Infinity, open = false, log = false } = {}) {
    const wide = 196;
    const map = log ? Math.log10 : (v) => v;
    const draw = (x, y) => {
      const { pen } = this;
      this.write(unit ? `${name} [${unit}]` : name, x, y + 12, { colour: this.theme.ink, weight: 600 });
      const shade = pen.createLinearGradient(x, 0, x + wide, 0);
      stops.forEach((stop, k) => shade.addColorStop(k / (stops.length - 1), stop));
      pen.fillStyle = shade;
      pen.beginPath();
      pen.roundRect(x, y + 18, wide, 9, 3);
      pen.fill();
      for (const mark of log ? logTicks(map(low), map(high)).slice(0, 4) : ticks(low, high, 3)) {
        const at = x + (wide * (map(mark) - map(low))) / (map(high) - map(low));
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
      this.on.touched?.();
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        this.pointed = now; // looked up once a frame
        return this.invalidate();
      }
      pointers.set(event.pointerId, now);
      const [dx, dy] = [now.x - before.x, now.y - before.y];
      travelled += Math.abs(dx) + Math.abs(dy);
      if (travelled < 4) return;
      canvas.classList.add("dragging");
      this.on.hover(null);
      this.hover = null;
      if (pointers.size === 2) this.pinch([...pointers.entries()].find(([id]) => id !== event.pointerId)[1], before, now);
      else if (this.space.isFlat || event.shiftKey || event.buttons & 6) this.pan(dx, dy);
      else this.orbit(0.0065 * dx, 0.0065 * dy);
    });
    const lift = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove("dragging");
      if (event.type === "pointerup" && travelled < 4 && event.button === 0) this.select(this.pick(place(event).x, place(event).y));
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => { this.pointed = this.hover = null; this.on.hover(null); this.invalidate(); });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.show("reset"));
    canvas.addEventListener("wheel", (event) => this.wheel(event, place(event)), { passive: false });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readTheme());
    for (const moment of ["beforeprint", "afterprint"]) window.addEventListener(moment, () => { this.readTheme(); this.resize(); });
  }

  point(at) {
    const found = this.pick(at.x, at.y);
    this.canvas.classList.toggle("pointing", Boolean(found));
    this.hover = found;
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
    const buttons = [...document.querySelectorAll("[data-view]:not([hidden])")].map((button) => button.dataset.view);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows[event.key]) {
      const [dx, dy] = arrows[event.key];
      if (this.space.isFlat || event.shiftKey) this.pan(30 * dx, 30 * dy);
      else this.orbit(0.08 * dx, 0.08 * dy);
    } else if (buttons[Number(event.key)] && /^[0-9]$/.test(event.key)) this.show(buttons[Number(event.key)]); // in the order of the buttons
    else if (event.key === "+" || event.key === "=") this.zoom(1.2);
    else if (event.key === "-") this.zoom(1 / 1.2);
    else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
  }
}

/** Buttons of the toolbar: views, a picture, the full screen. */
function connectToolbar(view, title) {
  for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => view.show(button.dataset.view));
  document.querySelector('[data-act="full"]').addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else byId("viewer").requestFullscreen?.();
  });
  document.querySelector('[data-act="picture"]').addEventListener("click", () => {
    view.picture().toBlob((blob) => {
      const address = URL.createObjectURL(blob);
      const link = make("a", { href: address, download: `${title.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "picture"}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    });
  });
}

/** A line at the bottom of the picture: for a moment, or until something happens. */
function hint(text, seconds = 1.5) {
  const box = byId("hint");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(hint.timer);
  if (seconds) hint.timer = setTimeout(() => box.classList.remove("shown"), 1000 * seconds);
}

const hintWheel = () => hint("Click the view, then the wheel zooms (or hold Ctrl)");
const endHint = () => byId("hint").classList.remove("shown");

/** How to move the view, with the hand that is there. */
function howTo(isFlat, things) {
  if (isTouch()) return `Tap ${things} for its numbers. ${isFlat ? "One finger moves" : "One finger turns"}, two fingers move and zoom, a double tap resets.`;
  return `Click ${things} for its numbers. ${isFlat ? "Drag moves" : "Drag turns, Shift-drag or right-drag moves"}, the wheel zooms, double-click resets.`;
}

function reportFailure(error) {
  const box = byId("failure");
  box.hidden = false;
  box.textContent = typeof DecompressionStream === "undefined"
    ? "This browser is too old for the pictures of this page; any browser of 2023 or later shows them."
    : `The pictures of this page could not be drawn: ${error.message}`;
  throw error;
}

/** How much larger or smaller than they are things are drawn. */
function sizeWords(factor) {
  if (factor === 1) return "true size";
  return factor > 1 ? `${tickText(factor)} times enlarged` : `drawn ${tickText(Number((1 / factor).toPrecision(2)))} times smaller`;
}
