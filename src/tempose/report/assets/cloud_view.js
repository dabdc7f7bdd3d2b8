// Points coloured by how unsure they are, and the cameras that saw them.

const BULK = 1.4; // points within so many radii of the middle are in the first view

class CloudView extends View {
  constructor(canvas, cloud, on) {
    const shown = placesOf(cloud);
    const [low, high] = [Math.min, Math.max].map((pick) => [0, 1, 2].map((k) => shown.reduce((best, value, i) => (i % 3 === k ? pick(best, value) : best), pick === Math.min ? Infinity : -Infinity)));
    const radius = Math.hypot(...high.map((value, k) => value - low[k])) / 2 || 1;
    super(canvas, { low, high, radius, origin: [0, 0, 0], unit: cloud.unit, isFlat: false, isMetric: true, stage: cloud.stage }, cloud.sigma.length, on);
    Object.assign(this, { cloud, shown });
    this.options = { colour: "sigma", cut: Infinity, size: 2.5, weak: false, cameras: true, ellipsoids: true, factor: 1, pairs: true };
    this.start();
  }

  set(changes) {
    Object.assign(this.options, changes);
    this.change("points", "balls");
  }

  placesToShow() {
    return this.shown;
  }

  angles(name) {
    return { reset: { yaw: -0.3, pitch: 0.35, perspective: 1 } }[name] || ANGLES[name];
  }

  show(name, animate = true) {
    if (name === "camera") this.lookFrom(this.selected?.kind === "camera" ? this.selected.index : 0, animate);
    else super.show(name, animate);
  }

  /** Stand where a camera stood and look where it looked, upright. */
  lookFrom(camera, animate = true) {
    const { centres, forward, cameras, near } = this.cloud;
    const f = [...forward.subarray(3 * camera, 3 * camera + 3)];
    const [x, y, z] = this.space.stage.map((row) => row[0] * f[0] + row[1] * f[1] + row[2] * f[2]);
    const eye = [...centres.subarray(3 * camera, 3 * camera + 3)];
    const distance = Math.max(0.2 * near, Math.hypot(...eye));
    const perspective = 4.4 * (cameras[camera].wide || 0.5);
    const goal = { yaw: Math.atan2(-x, y), pitch: Math.asin(Math.max(-1, Math.min(1, -z))), perspective, target: eye.map((v, k) => v + distance * f[k]) };
    this.moveTo({ ...goal, scale: (2.2 * Math.max(this.width, this.height)) / (perspective * distance) }, animate);
  }

  flyTo({ kind, index }) {
    if (kind === "camera") this.lookFrom(index);
  }

  layers() {
    const { options, cloud, theme } = this;
    const list = [this.keep("points", () => this.points())];
    if (options.ellipsoids && cloud.covariance.length) list.push(this.keep("balls", () => ({ kind: "balls", places: cloud.centres, covariance: cloud.covariance, colour: allPainted(cloud.cameras.length, parseColour(theme.bad)), level: 2 * options.factor, fill: 0.12, rim: 0.8 })));
    if (options.cameras) list.push(this.keep("frusta", () => ({ kind: "strokes", places: cloud.frusta, colour: allPainted(cloud.frusta.length / 6, parseColour(theme.accent)), width: cloud.cameras.length > 200 ? 0.9 : 1.3 })));
    if (options.pairs && cloud.pairs.length) list.push(this.keep("pairs", () => this.pairs()));
    return list;
  }

  points() {
    const { options, cloud } = this;
    const n = cloud.sigma.length;
    const colour = new Uint8Array(4 * n);
    const kind = options.colour === "photo" ? "sigma" : options.colour;
    const [low, high] = cloud.limits[kind].map(Math.log10);
    const palette = cloud.stops.map(parseColour);
    for (let i = 0; i < n; i++) {
      if ((cloud.weak[i] && !options.weak) || cloud.sigma[i] > options.cut) continue;
      const t = (Math.log10(cloud[kind][i]) - low) / (high - low);
      const rgb = options.colour === "photo" ? cloud.photo.subarray(3 * i, 3 * i + 3) : cloud[kind][i] > 0 ? palette[Math.max(0, Math.min(palette.length - 1, Math.round((palette.length - 1) * t)))] : [128, 128, 128];
      colour.set([rgb[0], rgb[1], rgb[2], 255], 4 * i);
    }
    return { kind: "dots", places: cloud.positions, colour, radius: options.size / 2 };
  }

  pairs() {
    const { centres, pairs } = this.cloud;
    const places = Float32Array.from(pairs.flatMap((pair) => pair.flatMap((camera) => [...centres.subarray(3 * camera, 3 * camera + 3)])));
    return { kind: "strokes", places, colour: allPainted(pairs.length, parseColour(this.theme.bad), 0.9), width: 1.6 };
  }

  drawMarks() {
    for (const [thing, colour, width] of [[this.hover, this.theme.ink, 1.6], [this.selected, this.theme.bad, 2.4]]) {
      if (!thing) continue;
      const { pen, cloud } = this;
      pen.beginPath();
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      if (thing.kind === "camera") {
        for (let at = 48 * thing.index; at < 48 * (thing.index + 1); at += 6) this.segment(this.toView(...cloud.frusta.subarray(at, at + 3)), this.toView(...cloud.frusta.subarray(at + 3, at + 6)));
      } else {
        const v = this.toView(...cloud.positions.subarray(3 * thing.index, 3 * thing.index + 3));
        if (1 + v[2] * this.seen.near > NEAR) pen.arc(...this.toScreen(v), this.options.size / 2 + 3, 0, 2 * Math.PI);
      }
      pen.stroke();
    }
  }

  /** The camera whose drawing, or the point that is under a point of the canvas. */
  pick(px, py) {
    const { cloud, options } = this;
    if (options.cameras) {
      const middles = this.keep("middles", () => middlesOf(cloud));
      const screen = this.projected(middles);
      const camera = this.nearest(middles, screen, px, py, isTouch() ? 26 : 16);
      if (camera >= 0) return { kind: "camera", index: camera };
    }
    const { colour } = this.keep("points", () => this.points());
    const screen = this.projected(cloud.positions);
    for (let i = 0; i < cloud.sigma.length; i++) if (!colour[4 * i + 3]) screen[2 * i] = NaN;
    const point = this.nearest(cloud.positions, screen, px, py, options.size / 2 + 4);
    return point < 0 ? null : { kind: "point", index: point };
  }

  legendEntries() {
    const { options, cloud, theme } = this;
    const entries = [];
    if (options.colour !== "photo") entries.push(this.bar("point σ", cloud.unit, cloud.limits[options.colour], cloud.stops, { log: true }));
    if (options.cameras) entries.push(this.key(theme.accent, plural(cloud.cameras.length, "camera")));
    if (options.ellipsoids && cloud.covariance.length) entries.push(this.key(theme.bad, `2σ ellipsoids, ${sizeWords(options.factor)}`, true));
    if (options.pairs && cloud.pairs.length) entries.push(this.key(theme.bad, cloud.pairs.length === 1 ? "1 pair contradicts the others" : `${cloud.pairs.length} pairs contradict the others`));
    return entries;
  }
}

/** The cameras and the bulk of the points: what the first view shows. */
function placesOf({ frusta, positions, weak, near }) {
  const out = [...frusta];
  const every = Math.max(1, Math.floor(weak.length / 5000));
  for (let i = 0; i < weak.length; i += every) {
    const place = positions.subarray(3 * i, 3 * i + 3);
    if (!weak[i] && Math.hypot(...place) < BULK * near) out.push(...place);
  }
  return Float32Array.from(out);
}

/** Middles of the drawn cameras: between the centre and the image. */
function middlesOf({ frusta, cameras }) {
  const out = new Float32Array(3 * cameras.length);
  for (let c = 0; c < cameras.length; c++) {
    for (let k = 0; k < 3; k++) {
      let image = 0;
      for (let corner = 0; corner < 4; corner++) image += frusta[48 * c + 6 * corner + 3 + k] / 4;
      out[3 * c + k] = 0.4 * frusta[48 * c + k] + 0.6 * image;
    }
  }
  return out;
}
