// Layers without a graphics processor: every pixel is computed here and put on the canvas at once. Paths of a 2-D canvas take ten times
// as long from a thousand lines on.

const SUBPIXELS = 4; // places within a pixel that dots are prepared for, each way

const MOST_FILLED = 3e6; // pixels of ellipsoids a frame can fill in time

class PixelPainter {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.isFast = false;
    this.stamps = new Map();
    this.covered = 0;
  }

  begin(lens, ground) {
    const [width, height] = [Math.round(lens.width * lens.ratio), Math.round(lens.height * lens.ratio)];
    if (!this.image || this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      this.image = this.pen.createImageData(width, height);
      this.bytes = new Uint8Array(this.image.data.buffer);
    }
    const words = new Uint32Array(this.image.data.buffer);
    words.fill(0xff000000 | (ground[2] << 16) | (ground[1] << 8) | ground[0]);
    Object.assign(this, { width, height, lens });
  }

  /** Paint every `stride`-th thing of a layer. */
  draw(layer, stride = 1) {
    if (layer.kind === "strokes") this.strokes(layer, stride);
    else if (layer.kind === "dots") this.dots(layer, stride);
    else this.balls(layer, stride);
  }

  end() {
    this.pen.putImageData(this.image, 0, 0);
  }

  strokes({ places, colour, width, fade = 0 }, stride) {
    const { axes: a, target, near, reach, ratio } = this.lens;
    const scale = this.lens.scale * ratio;
    const [tx, ty, tz] = target;
    const [cx, cy] = [this.width / 2, this.height / 2];
    const thick = Math.max(1, width * ratio) / 2;
    const thin = Math.min(1, width * ratio);
    for (let i = 0, j = 0; i < colour.length / 4; i += stride, j = 6 * i) {
      const alpha = colour[4 * i + 3];
      if (!alpha) continue;
      let dx = places[j] - tx, dy = places[j + 1] - ty, dz = places[j + 2] - tz;
      let px = a[0] * dx + a[1] * dy + a[2] * dz, py = a[3] * dx + a[4] * dy + a[5] * dz, pz = a[6] * dx + a[7] * dy + a[8] * dz;
      dx = places[j + 3] - tx; dy = places[j + 4] - ty; dz = places[j + 5] - tz;
      let qx = a[0] * dx + a[1] * dy + a[2] * dz, qy = a[3] * dx + a[4] * dy + a[5] * dz, qz = a[6] * dx + a[7] * dy + a[8] * dz;
      let one = 1 + near * pz, two = 1 + near * qz;
      if (one < NEAR || two < NEAR) {
        if (one < NEAR && two < NEAR) continue;
        const t = (NEAR - one) / (two - one);
        const mx = px + t * (qx - px), my = py + t * (qy - py), mz = pz + t * (qz - pz);
        if (one < NEAR) { px = mx; py = my; pz = mz; one = NEAR; } else { qx = mx; qy = my; qz = mz; two = NEAR; }
      }
      const seen = fade ? 1 - fade * Math.max(0, Math.min(1, 0.5 + (0.25 * (pz + qz)) / reach)) : 1;
      const opacity = (alpha / 255) * seen * thin;
      if (!(opacity > 0)) continue; // NaN, too: a place that is not known
      const x0 = cx + (scale * px) / one, y0 = cy - (scale * py) / one, x1 = cx + (scale * qx) / two, y1 = cy - (scale * qy) / two;
      if (Math.abs(x1 - x0) < 0.5 && Math.abs(y1 - y0) < 0.5) continue; // within a pixel
      this.line(x0, y0, x1, y1, colour[4 * i], colour[4 * i + 1], colour[4 * i + 2], opacity, thick);
    }
  }

  /** A line with soft edges, column by column or row by row, whichever it crosses more of. */
  line(x0, y0, x1, y1, r, g, b, alpha, half) {
    const { width, height, bytes } = this;
    const steep = Math.abs(y1 - y0) > Math.abs(x1 - x0);
    const isTurned = steep ? y0 > y1 : x0 > x1;
    const xa = isTurned ? x1 : x0, ya = isTurned ? y1 : y0, xb = isTurned ? x0 : x1, yb = isTurned ? y0 : y1;
    const u0 = steep ? ya : xa, v0 = steep ? xa : ya, u1 = steep ? yb : xb, v1 = steep ? xb : yb;
    const long = steep ? height : width, across = steep ? width : height;
    if (u1 < 0 || u0 >= long || Math.max(v0, v1) < -half || Math.min(v0, v1) > across + half) return;
    const ink = 256 * alpha; // opacities are of 256 in whole numbers, the rounding is unbiased
    const slope = u1 > u0 ? (v1 - v0) / (u1 - u0) : 0;
    const reach = half * Math.sqrt(1 + slope * slope);
    const from = Math.max(0, Math.round(u0));
    const to = Math.min(long - 1, Math.max(Math.round(u0), Math.round(u1) - 1));
    const stepU = steep ? 4 * width : 4, stepV = steep ? 4 : 4 * width;
    let v = v0 + slope * (from + 0.5 - u0);
    for (let u = from; u <= to; u++, v += slope) {
      const last = Math.min(across - 1, Math.floor(v + reach));
      for (let w = Math.max(0, Math.floor(v - reach)); w <= last; w++) {
        const off = w + 0.5 - v;
        const cover = reach + 0.5 - (off < 0 ? -off : off);
        const t = (cover >= 1 ? ink : ink * cover) | 0;
        const o = u * stepU + w * stepV;
        bytes[o] = (r * t + bytes[o] * (256 - t) + 128) >> 8;
        bytes[o + 1] = (g * t + bytes[o + 1] * (256 - t) + 128) >> 8;
        bytes[o + 2] = (b * t + bytes[o + 2] * (256 - t) + 128) >> 8;
      }
    }
  }

  dots(layer, stride) {
    const { places, colour, fade = 0 } = layer;
    const { axes: a, target, near, reach, ratio } = this.lens;
    const scale = this.lens.scale * ratio;
    const count = colour.length / 4;
    const order = this.farFirst(places, count, stride);
    const stamps = this.prepared(layer, ratio);
    const [or, og, ob] = layer.outline || [0, 0, 0];
    const { width, height, bytes } = this;
    for (let k = 0; k < Math.ceil(count / stride); k++) {
      const i = order[k];
      const alpha = colour[4 * i + 3] / 255;
      if (!alpha) continue;
      const dx = places[3 * i] - target[0], dy = places[3 * i + 1] - target[1], dz = places[3 * i + 2] - target[2];
      const away = a[6] * dx + a[7] * dy + a[8] * dz;
      const q = 1 + near * away;
      if (!(q > NEAR)) continue;
      const x = width / 2 + (scale / q) * (a[0] * dx + a[1] * dy + a[2] * dz);
      const y = height / 2 - (scale / q) * (a[3] * dx + a[4] * dy + a[5] * dz);
      if (!(x > -20 && x < width + 20 && y > -20 && y < height + 20)) continue;
      const left = Math.floor(x), top = Math.floor(y);
      const { at, from, cover, rim, reach: edge } = stamps[((SUBPIXELS * (y - top)) | 0) * SUBPIXELS + ((SUBPIXELS * (x - left)) | 0)];
      const opacity = fade ? alpha * (1 - fade * Math.max(0, Math.min(1, 0.5 + (0.5 * away) / reach))) : alpha;
      const r = colour[4 * i], g = colour[4 * i + 1], b = colour[4 * i + 2];
      const isInside = left >= edge && top >= edge && left < width - edge && top < height - edge;
      const middle = 4 * (top * width + left);
      for (let s = 0; s < cover.length; s++) {
        if (!isInside && (left + at[2 * s] < 0 || top + at[2 * s + 1] < 0 || left + at[2 * s] >= width || top + at[2 * s + 1] >= height)) continue;
        const o = middle + from[s];
        const t = (opacity * cover[s]) | 0;
        const m = rim[s], u = 256 - t;
        bytes[o] = ((r + (((or - r) * m) >> 8)) * t + bytes[o] * u + 128) >> 8;
        bytes[o + 1] = ((g + (((og - g) * m) >> 8)) * t + bytes[o + 1] * u + 128) >> 8;
        bytes[o + 2] = ((b + (((ob - b) * m) >> 8)) * t + bytes[o + 2] * u + 128) >> 8;
      }
    }
  }

  /** Every `stride`-th thing, from far to near, to a thousandth of the depth. */
  farFirst(places, count, stride) {
    const { axes: a, target, reach } = this.lens;
    const slots = 1024;
    if (!this.order || this.order.length < count) [this.order, this.slot] = [new Uint32Array(count), new Uint16Array(count)];
    const { order, slot } = this;
    const starts = new Uint32Array(slots + 1);
    const middle = a[6] * target[0] + a[7] * target[1] + a[8] * target[2];
    for (let i = 0; i < count; i += stride) {
      const away = a[6] * places[3 * i] + a[7] * places[3 * i + 1] + a[8] * places[3 * i + 2] - middle;
      const s = (slots / 2) * (1 - away / (2 * reach));
      slot[i] = s > 0 ? Math.min(slots - 1, s) : 0;
      starts[slot[i] + 1]++;
    }
    for (let s = 1; s <= slots; s++) starts[s] += starts[s - 1];
    for (let i = 0; i < count; i += stride) order[starts[slot[i]]++] = i;
    return order;
  }

  /** What a dot covers of each pixel around it, for sixteen places of its middle within a pixel. */
  prepared({ radius, shape = "disc", outline, line = 1 }, ratio) {
    const key = [radius, shape, outline?.[3], line, ratio, this.width].join();
    if (!this.stamps.has(key)) {
      const made = [];
      for (let sy = 0; sy < SUBPIXELS; sy++) for (let sx = 0; sx < SUBPIXELS; sx++) made.push(stamp((sx + 0.5) / SUBPIXELS, (sy + 0.5) / SUBPIXELS, radius * ratio, shape, outline?.[3] || 0, line * ratio, this.width));
      this.stamps.set(key, made);
    }
    return this.stamps.get(key);
  }

  balls({ places, covariance: c, colour, level, fill, rim, fade = 0 }, stride) {
    const { axes: a, target, near, reach, ratio } = this.lens;
    const scale = this.lens.scale * ratio;
    const { width, height, bytes } = this;
    const isFilled = !this.lens.isMoving || this.covered < MOST_FILLED; // while it turns, outlines are enough
    this.covered = 0;
    for (let i = 0; i < colour.length / 4; i += stride) {
      const alpha = colour[4 * i + 3] / 255;
      if (!alpha) continue;
      const dx = places[3 * i] - target[0], dy = places[3 * i + 1] - target[1], dz = places[3 * i + 2] - target[2];
      const vx = a[0] * dx + a[1] * dy + a[2] * dz, vy = a[3] * dx + a[4] * dy + a[5] * dz, vz = a[6] * dx + a[7] * dy + a[8] * dz;
      const q = 1 + near * vz;
      if (!(q > NEAR)) continue;
      const x = width / 2 + (scale * vx) / q;
      const y = height / 2 - (scale * vy) / q;
      const [xx, xy, yy] = outlineOf(c, 6 * i, a, (vx * near) / q, (vy * near) / q, (level * scale) / q);
      const [wide, tall] = [Math.sqrt(xx), Math.sqrt(yy)];
      if (Math.max(wide, tall) < 0.7 || Math.max(wide, tall) > 50 * width || x + wide < 0 || x - wide > width || y + tall < 0 || y - tall > height) continue;
      this.covered += 4 * Math.min(wide, width) * Math.min(tall, height);
      const seen = alpha * (1 - fade * Math.max(0, Math.min(1, 0.5 + (0.5 * vz) / reach)));
      const [r, g, b] = [colour[4 * i], colour[4 * i + 1], colour[4 * i + 2]];
      if (isFilled && fill * seen > 0.004) {
        const t = Math.round(256 * fill * seen);
        const rest_ = 256 - t, rt = r * t + 128, gt = g * t + 128, bt = b * t + 128;
        const [lean, rest] = [xy / yy, Math.sqrt(Math.max(0, xx - (xy * xy) / yy))];
        for (let v = Math.max(0, Math.ceil(y - tall)); v <= Math.min(height - 1, y + tall); v++) {
          const h = (v + 0.5 - y) / tall;
          if (h < -1 || h > 1) continue;
          const [at, half] = [x + lean * (v + 0.5 - y), rest * Math.sqrt(1 - h * h)];
          const last = Math.min(width - 1, Math.round(at + half) - 1);
          for (let u = Math.max(0, Math.round(at - half)), o = 4 * (v * width + u); u <= last; u++, o += 4) {
            bytes[o] = (rt + bytes[o] * rest_) >> 8;
            bytes[o + 1] = (gt + bytes[o + 1] * rest_) >> 8;
            bytes[o + 2] = (bt + bytes[o + 2] * rest_) >> 8;
          }
        }
      }
      if (rim * seen > 0.004) this.ring(x, y, xx, xy, yy, r, g, b, rim * seen);
    }
  }

  /** The outline of an ellipse of covariance (xx, xy, yy), in pieces of a few pixels. */
  ring(x, y, xx, xy, yy, r, g, b, alpha) {
    const l = Math.sqrt(xx), m = xy / l, n = Math.sqrt(Math.max(0.16, yy - m * m));
    const round = ROUNDS[Math.min(ROUNDS.length - 1, (Math.sqrt(l + n) / 1.5) | 0)];
    let px = x + l, py = y + m;
    for (let k = 0; k < round.length; k += 2) {
      const qx = x + l * round[k], qy = y + m * round[k] + n * round[k + 1];
      this.line(px, py, qx, qy, r, g, b, alpha, 0.5);
      px = qx;
      py = qy;
    }
  }
}

/** Cosines and sines of so many equal steps around. */
const ROUNDS = [6, 10, 14, 20, 28, 40, 64].map((pieces) => Float64Array.from({ length: 2 * pieces }, (_, k) => Math[k % 2 ? "sin" : "cos"]((2 * Math.PI * (1 + (k >> 1))) / pieces)));

/** Covariance on the screen (xx, xy, yy; y down, pixels) of the outline of an ellipsoid: the projection's derivative applied on both sides. */
function outlineOf(c, j, a, px, py, grow) {
  const gx0 = a[0] - px * a[6], gx1 = a[1] - px * a[7], gx2 = a[2] - px * a[8];
  const gy0 = a[3] - py * a[6], gy1 = a[4] - py * a[7], gy2 = a[5] - py * a[8];
  const hx0 = c[j] * gx0 + c[j + 1] * gx1 + c[j + 2] * gx2, hx1 = c[j + 1] * gx0 + c[j + 3] * gx1 + c[j + 4] * gx2, hx2 = c[j + 2] * gx0 + c[j + 4] * gx1 + c[j + 5] * gx2;
  const hy0 = c[j] * gy0 + c[j + 1] * gy1 + c[j + 2] * gy2, hy1 = c[j + 1] * gy0 + c[j + 3] * gy1 + c[j + 4] * gy2, hy2 = c[j + 2] * gy0 + c[j + 4] * gy1 + c[j + 5] * gy2;
  const s = grow * grow;
  return [s * (gx0 * hx0 + gx1 * hx1 + gx2 * hx2) + 1e-9, -s * (gx0 * hy0 + gx1 * hy1 + gx2 * hy2), s * (gy0 * hy0 + gy1 * hy1 + gy2 * hy2) + 1e-9];
}

/** Pixels (from the one of the middle; and in bytes), how much of each is covered, and how much of that is outline, both of 256. */
function stamp(x, y, radius, shape, outlined, line, width) {
  const [at, cover, rim] = [[], [], []];
  const reach = Math.ceil(radius + 1.5);
  for (let v = -reach; v <= reach; v++) {
    for (let u = -reach; u <= reach; u++) {
      const [dx, dy] = [Math.abs(u + 0.5 - x), Math.abs(v + 0.5 - y)];
      const out = { disc: Math.hypot(dx, dy) - radius, diamond: (dx + dy - radius) * Math.SQRT1_2, square: Math.max(dx, dy) - radius, cross: Math.max(Math.min(dx, dy) - line / 2, Math.max(dx, dy) - radius) }[shape];
      const part = Math.max(0, Math.min(1, shape === "disc" || shape === "cross" ? 0.5 - out : line / 2 + 0.5 - Math.abs(out)));
      if (part < 0.02) continue;
      at.push(u, v);
      cover.push(Math.round(256 * part));
      rim.push(shape === "disc" ? Math.round(256 * outlined * Math.max(0, Math.min(1, out + line + 0.5))) : 0);
    }
  }
  const from = Int32Array.from(cover, (_, s) => 4 * (at[2 * s + 1] * width + at[2 * s]));
  return { at: Int16Array.from(at), from, cover: Int16Array.from(cover), rim: Int16Array.from(rim), reach };
}
