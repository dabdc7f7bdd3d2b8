// Layers, and who paints them: WebGL where there is a graphics processor, else pixels by our own code.
//
// A layer is plain data: `kind` and arrays with a row per thing.
//   strokes  places (6 numbers: both ends), colour (4 bytes), width
//   dots     places (3), colour (4), radius, shape, outline ([r, g, b, a], optional)
//   balls    places (3), covariance (6: xx, xy, xz, yy, yz, zz), colour (4), level (how many σ), fill and rim (opacities)
// `fade` (0…1) is how much of its opacity a thing loses from the nearest to the farthest place. Things of opacity 0 are not drawn.
// Lengths are CSS pixels. A lens is what a camera sees: axes (nine numbers, rows right, up, away), target, scale, near, reach, width,
// height, ratio; see View.lens().

const NEAR = 0.12; // things whose 1 + away · near is smaller lie behind the viewer
const SHAPES = { disc: 0, diamond: 1, square: 2, cross: 3 };
const SMALL = 700; // nodes and edges up to here need no graphics processor
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/** A painter on a canvas of its own below `above`; `#canvas` or `#webgl` at the end of the address chooses. */
function makePainter(above, things) {
  const asked = location.hash.slice(1);
  const stage = above.parentElement;
  const fresh = () => {
    stage.querySelector("canvas.below")?.remove();
    const canvas = make("canvas", { class: "below", "aria-hidden": "true" });
    above.before(canvas);
    return canvas;
  };
  if (asked === "webgl" || (asked !== "canvas" && things > SMALL)) {
    const gl = graphics(fresh(), asked === "webgl");
    if (gl) {
      try {
        const painter = new GlPainter(gl);
        stage.dataset.painter = "webgl";
        return painter;
      } catch {
        gl.getExtension("WEBGL_lose_context")?.loseContext(); // a driver that cannot compile: paint without it
      }
    }
  }
  stage.dataset.painter = "canvas";
  return new PixelPainter(fresh());
}

/** A WebGL 2 context of a graphics processor, or null. One in software is given back at once: it would warn and is no faster. */
function graphics(canvas, anyKind) {
  const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, preserveDrawingBuffer: true, failIfMajorPerformanceCaveat: !anyKind });
  if (!gl || anyKind) return gl;
  let name = String(gl.getParameter(gl.RENDERER));
  const info = name.startsWith("WebKit") ? gl.getExtension("WEBGL_debug_renderer_info") : null;
  if (info) name = String(gl.getParameter(info.UNMASKED_RENDERER_WEBGL));
  if (!SOFTWARE.test(name)) return gl;
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return null;
}

/** Colours of things: a palette ([r, g, b] each) and the place of each thing in it, to four bytes per thing. */
function painted(bins, palette, alpha = () => 1) {
  const colour = new Uint8Array(4 * bins.length);
  const rows = palette.map((rgb, bin) => [...rgb, Math.round(255 * Math.max(0, Math.min(1, alpha(bin))))]);
  for (let i = 0; i < bins.length; i++) colour.set(rows[bins[i]], 4 * i);
  return colour;
}

/** The same colour for `count` things. */
function allPainted(count, rgb, alpha = 1) {
  return painted(new Uint8Array(count), [rgb], () => alpha);
}
