// Points and cameras with WebGL: tens of thousands of points turn smoothly on any machine.
//
// The view is an orbit: target, distance, yaw and pitch around the up axis, which is −y as cameras have it.

const JET = ["#000080", "#0000ff", "#00ffff", "#ffff00", "#ff0000", "#800000"];
const JET_AT = [0, 0.125, 0.375, 0.625, 0.875, 1];
const FIELD = 0.9; // vertical field of view, radians

const POINT_VERTEX = `
attribute vec3 place; attribute float value; attribute vec3 photo; attribute float weak;
uniform mat4 view; uniform float size, low, high, cut, showWeak, byPhoto;
varying vec3 colour; varying float gone;
vec3 jet(float x) { return clamp(vec3(1.5) - abs(4.0 * x - vec3(3.0, 2.0, 1.0)), 0.0, 1.0); }
void main() {
  gl_Position = view * vec4(place, 1.0);
  gl_PointSize = size;
  float t = clamp((value - low) / (high - low), 0.0, 1.0);
  colour = byPhoto > 0.5 ? photo : jet(t);
  gone = value > cut || (weak > 0.5 && showWeak < 0.5) ? 1.0 : 0.0;
}`;
const POINT_FRAGMENT = `
precision mediump float; varying vec3 colour; varying float gone;
void main() {
  vec2 d = gl_PointCoord - 0.5;
  if (gone > 0.5 || dot(d, d) > 0.25) discard;
  gl_FragColor = vec4(colour, 1.0);
}`;
const LINE_VERTEX = `attribute vec3 place; uniform mat4 view; void main() { gl_Position = view * vec4(place, 1.0); }`;
const LINE_FRAGMENT = `precision mediump float; uniform vec3 colour; void main() { gl_FragColor = vec4(colour, 1.0); }`;

async function main() {
  const payload = JSON.parse(byId("data").textContent);
  const cloud = { unit: payload.unit, limits: payload.limits, radius: payload.radius, near: payload.near, counts: payload.counts };
  const arrays = ["positions", "sigma", "image", "pose", "photo", "weak", "frusta", "centres", "axes", "home"];
  for (const name of arrays) cloud[name] = await unpack(payload[name]);
  const view = new CloudView(byId("canvas"), cloud);
  connect(view, cloud, payload.title);
  payload.histograms.forEach((histogram) => histogramChart(byId("histograms"), histogram));
  document.documentElement.dataset.ready = "yes";
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  return made;
}

class CloudView {
  constructor(canvas, cloud) {
    const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser has no WebGL; open points_sigma.ply in a point-cloud program instead");
    Object.assign(this, { canvas, cloud, gl });
    this.options = { colour: "sigma", cut: Infinity, size: 2.5, weak: false, cameras: true, ellipsoids: true, factor: 1 };
    this.points = program(gl, POINT_VERTEX, POINT_FRAGMENT);
    this.lines = program(gl, LINE_VERTEX, LINE_FRAGMENT);
    this.buffers = {};
    for (const name of ["positions", "photo", "weak", "frusta"]) this.load(name, cloud[name]);
    for (const name of ["sigma", "image", "pose"]) this.load(name, cloud[name].map((s) => (s > 0 ? Math.log10(s) : 99)));
    this.show("reset");
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  load(name, values) {
    const { gl } = this;
    this.buffers[name] ??= gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, Float32Array.from(values), gl.DYNAMIC_DRAW);
  }

  set(changes) {
    Object.assign(this.options, changes);
    this.load("ellipses", ellipses(this.cloud, 2 * this.options.factor));
    this.draw();
  }

  /** home: first camera's position, its viewing direction, and where the cameras look on average. */
  show(name) {
    const h = this.cloud.home;
    const target = [0, 0, 0]; // the middle of the good points
    const turn = (k) => ({ yaw: Math.atan2(h[k], h[k + 2]), pitch: Math.asin(Math.max(-1, Math.min(1, h[k + 1]))) });
    const far = (1.8 * this.cloud.near) / Math.sin(FIELD / 2);
    if (name === "top") this.orbit = { target, distance: far, yaw: turn(6).yaw, pitch: 1.5 };
    else if (name === "camera") {
      const distance = Math.max(1e-9, Math.hypot(h[0], h[1], h[2]));
      this.orbit = { target: [0, 1, 2].map((k) => h[k] + h[3 + k] * distance), distance, ...turn(3) };
    } else this.orbit = { target, distance: far, yaw: turn(6).yaw - 0.3, pitch: turn(6).pitch + 0.3 };
    this.draw();
  }

  /** Directions right, down and forward of the viewer in the world. */
  frame() {
    const { yaw, pitch } = this.orbit;
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    return [[cy, 0, -sy], [-sp * sy, cp, -sp * cy], [cp * sy, sp, cp * cy]];
  }

  matrix(width, height) {
    const [right, down, forward] = this.frame();
    const { target, distance } = this.orbit;
    const eye = target.map((v, k) => v - distance * forward[k]);
    const f = 1 / Math.tan(FIELD / 2);
    const near = distance / 100;
    const far = distance + 40 * this.cloud.radius;
    const dot = (a) => -(a[0] * eye[0] + a[1] * eye[1] + a[2] * eye[2]);
    const x = right.map((v) => (v * f * height) / width).concat((dot(right) * f * height) / width);
    const y = down.map((v) => -v * f).concat(-dot(down) * f);
    const a = (far + near) / (far - near);
    const w = [...forward, dot(forward)];
    const z = w.map((v, k) => a * v - (k === 3 ? (2 * far * near) / (far - near) : 0));
    return new Float32Array([0, 1, 2, 3].flatMap((k) => [x[k], y[k], z[k], w[k]]));
  }

  draw() {
    const { gl, canvas, options, cloud } = this;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const ground = parseColour(getComputedStyle(document.documentElement).getPropertyValue("--stage").trim()).map((v) => v / 255);
    gl.viewport(0, 0, width, height);
    gl.clearColor(...ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    const view = this.matrix(width, height);
    gl.useProgram(this.points);
    const uniform = (name) => gl.getUniformLocation(this.points, name);
    const kind = options.colour === "photo" ? "sigma" : options.colour;
    const [low, high] = cloud.limits[kind];
    gl.uniformMatrix4fv(uniform("view"), false, view);
    const values = { size: options.size * ratio, low: Math.log10(low), high: Math.log10(high), cut: Math.log10(options.cut), showWeak: Number(options.weak), byPhoto: Number(options.colour === "photo") };
    if (!Number.isFinite(values.cut)) values.cut = 1e9;
    for (const [name, value] of Object.entries(values)) gl.uniform1f(uniform(name), value);
    this.bind(this.points, "place", "positions", 3);
    this.bind(this.points, "value", kind, 1);
    this.bind(this.points, "photo", "photo", 3);
    this.bind(this.points, "weak", "weak", 1);
    gl.drawArrays(gl.POINTS, 0, cloud.sigma.length);
    gl.useProgram(this.lines);
    gl.uniformMatrix4fv(gl.getUniformLocation(this.lines, "view"), false, view);
    if (options.cameras) this.strokes("frusta", cloud.frusta.length / 3, "--accent");
    if (options.ellipsoids && cloud.axes.length) this.strokes("ellipses", (cloud.axes.length / 9) * 3 * 2 * SEGMENTS, "--bad");
  }

  strokes(name, count, colour) {
    const { gl } = this;
    const paint = parseColour(getComputedStyle(document.documentElement).getPropertyValue(colour).trim()).map((v) => v / 255);
    gl.uniform3f(gl.getUniformLocation(this.lines, "colour"), ...paint);
    this.bind(this.lines, "place", name, 3);
    gl.drawArrays(gl.LINES, 0, count);
  }

  bind(owner, attribute, buffer, width) {
    const { gl } = this;
    const at = gl.getAttribLocation(owner, attribute);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[buffer]);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, width, gl.FLOAT, false, 0, 0);
  }

  listen() {
    const { canvas } = this;
    let last = null;
    canvas.addEventListener("pointerdown", (event) => { last = event; canvas.setPointerCapture(event.pointerId); canvas.classList.add("dragging"); });
    canvas.addEventListener("pointerup", () => { last = null; canvas.classList.remove("dragging"); });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const [dx, dy] = [event.clientX - last.clientX, event.clientY - last.clientY];
      const o = this.orbit;
      if (event.shiftKey || last.button === 2 || last.button === 1) {
        const [right, down] = this.frame();
        const step = (2 * o.distance * Math.tan(FIELD / 2)) / canvas.clientHeight;
        o.target = o.target.map((v, k) => v - step * (dx * right[k] + dy * down[k]));
      } else {
        o.yaw -= 0.006 * dx;
        o.pitch = Math.max(-1.55, Math.min(1.55, o.pitch + 0.006 * dy));
      }
      last = { clientX: event.clientX, clientY: event.clientY, button: last.button };
      this.draw();
    });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.show("reset"));
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(0.0015 * event.deltaY)); }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: [0.08, 0], ArrowRight: [-0.08, 0], ArrowUp: [0, 0.08], ArrowDown: [0, -0.08] }[event.key];
      const view = { 0: "reset", 1: "camera", 2: "top" }[event.key];
      if (turn) { this.orbit.yaw += turn[0]; this.orbit.pitch += turn[1]; this.draw(); }
      else if (view) this.show(view);
      else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.85 : 1.18);
      else return;
      event.preventDefault();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  zoom(factor) {
    this.orbit.distance *= factor;
    this.draw();
  }
}

const SEGMENTS = 24;

/** Three great circles of each camera's ellipsoid; `axes` holds three 1σ half-axes per camera. */
function ellipses({ centres, axes }, factor) {
  const out = [];
  for (let c = 0; c < axes.length / 9; c++) {
    const axis = (k) => axes.subarray(9 * c + 3 * k, 9 * c + 3 * k + 3);
    for (const [a, b] of [[axis(0), axis(1)], [axis(0), axis(2)], [axis(1), axis(2)]]) {
      for (let s = 0; s < SEGMENTS; s++) {
        for (const angle of [s, s + 1].map((t) => (2 * Math.PI * t) / SEGMENTS)) {
          for (let k = 0; k < 3; k++) out.push(centres[3 * c + k] + factor * (Math.cos(angle) * a[k] + Math.sin(angle) * b[k]));
        }
      }
    }
  }
  return out;
}

function connect(view, cloud, title) {
  const weak = cloud.weak.reduce((sum, w) => sum + w, 0);
  byId("weak").disabled = !weak;
  byId("weak-label").textContent = weak ? `Show ${plural(weak, "weak point")}` : "No weak points";
  byId("ellipsoid-group").hidden = !cloud.axes.length;
  const photo = [...byId("colour").options].find((option) => option.value === "photo");
  if (!cloud.photo.length) photo.remove();
  const typical = cloud.axes.length ? Math.hypot(...cloud.axes.subarray(0, 9)) || Math.hypot(...cloud.axes.subarray(9, 18)) : 0;
  const fitting = typical > 0 ? Math.max(1, (0.06 * cloud.near) / typical) : 1;
  byId("factor").value = Math.min(150, Math.round(50 * Math.log10(fitting)));
  byId("about").textContent = "Drag turns, Shift-drag moves, the wheel zooms.";
  const sorted = Float32Array.from(cloud.sigma.filter((s, k) => s > 0 && !cloud.weak[k])).sort();
  const apply = () => {
    const kind = byId("colour").value;
    const share = Number(byId("cut").value) / 100;
    const [low, high] = [sorted[0], sorted[sorted.length - 1]];
    const cut = share >= 1 || !sorted.length ? Infinity : low * (high / low) ** share;
    let shown = sorted.length;
    if (cut < Infinity) { shown = 0; for (const s of sorted) if (s <= cut) shown++; }
    byId("cut-value").textContent = cut === Infinity ? `all ${plural(sorted.length, "good point")} shown` : `σ ≤ ${measure(cut, cloud.unit)}: ${plural(shown, "point")} of ${sorted.length.toLocaleString("en")}`;
    const factor = Number((10 ** (Number(byId("factor").value) / 50)).toPrecision(2));
    byId("factor-value").textContent = `×${tickText(factor)}`;
    const limits = cloud.limits[kind];
    byId("scale").hidden = !limits;
    if (limits) {
      byId("scale-low").textContent = `σ ${measure(limits[0], cloud.unit, 2)}`;
      byId("scale-high").textContent = measure(limits[1], cloud.unit, 2);
    }
    view.set({ colour: kind, cut, size: Number(byId("size").value), weak: byId("weak").checked, cameras: byId("cameras").checked, ellipsoids: byId("ellipsoids").checked, factor });
  };
  byId("scale").querySelector("i").style.background = `linear-gradient(to right, ${JET.map((c, k) => `${c} ${100 * JET_AT[k]}%`).join(", ")})`;
  byId("controls").addEventListener("input", apply);
  for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => view.show(button.dataset.view));
  document.querySelector('[data-act="full"]').addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : byId("viewer").requestFullscreen?.()));
  document.querySelector('[data-act="picture"]').addEventListener("click", () => {
    const link = make("a", { href: view.canvas.toDataURL("image/png"), download: `${title.replace(/[^\p{L}\p{N}._-]+/gu, "_") || "cloud"}.png` });
    link.click();
  });
  apply();
}

main().catch((error) => {
  const box = byId("failure");
  box.hidden = false;
  box.textContent = `The pictures of this page could not be drawn: ${error.message}`;
  throw error;
});
