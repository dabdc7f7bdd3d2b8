// Layers with WebGL 2: arrays go to the graphics processor once, a frame is a few numbers and one call per layer.

const SEEN = `#version 300 es
precision highp float;
uniform mat3 axes; uniform vec3 target; uniform vec2 middle; // half the picture, in its pixels
uniform float scale, near, reach, fade;
const float NEAR = ${NEAR};
vec3 seen(vec3 place) { return axes * (place - target); }
vec2 flat_(vec3 v) { return scale * v.xy / (1.0 + near * v.z); }
float faded(float away) { return 1.0 - fade * clamp(0.5 + 0.5 * away / reach, 0.0, 1.0); }
vec4 hidden() { return vec4(2.0, 2.0, 2.0, 1.0); }
vec2 corner() { return vec2(gl_VertexID & 1, (gl_VertexID >> 1) & 1); } // of the four of each thing
`;
const SHADERS = {
  strokes: [`${SEEN}
    in vec3 from; in vec3 to; in vec4 colour;
    uniform float width;
    out vec4 paint; out float across;
    void main() {
      vec3 p = seen(from), q = seen(to);
      float one = 1.0 + near * p.z, two = 1.0 + near * q.z;
      if (colour.a == 0.0 || (one < NEAR && two < NEAR)) { gl_Position = hidden(); return; }
      vec3 cut = one == two ? p : mix(p, q, (NEAR - one) / (two - one));
      if (one < NEAR) p = cut; else if (two < NEAR) q = cut;
      vec2 a = flat_(p), b = flat_(q), way = b - a;
      float length_ = length(way);
      vec2 along = length_ > 0.0 ? way / length_ : vec2(1.0, 0.0);
      across = (2.0 * corner().y - 1.0) * (0.5 * width + 1.0);
      vec2 at = mix(a, b, corner().x) + across * vec2(-along.y, along.x);
      gl_Position = vec4(at / middle, 0.0, 1.0);
      paint = vec4(colour.rgb, colour.a * faded(0.5 * (p.z + q.z)));
    }`, `#version 300 es
    precision highp float;
    in vec4 paint; in float across; out vec4 pixel; uniform float width;
    void main() {
      float cover = clamp(0.5 * max(width, 1.0) + 0.5 - abs(across), 0.0, 1.0) * min(width, 1.0);
      pixel = vec4(paint.rgb, paint.a * cover);
    }`],
  dots: [`${SEEN}
    in vec3 from; in vec4 colour;
    uniform float radius;
    out vec4 paint; out float size;
    void main() {
      vec3 v = seen(from);
      if (colour.a == 0.0 || 1.0 + near * v.z < NEAR) { gl_Position = hidden(); return; }
      gl_Position = vec4(flat_(v) / middle, clamp(v.z / (4.0 * reach), -0.99, 0.99), 1.0);
      gl_PointSize = size = 2.0 * radius + 3.0;
      paint = vec4(colour.rgb, colour.a * faded(v.z));
    }`, `#version 300 es
    precision highp float;
    in vec4 paint; in float size; out vec4 pixel;
    uniform float radius, line; uniform vec4 outline; uniform int shape;
    void main() {
      vec2 d = abs(gl_PointCoord - 0.5) * size;
      float out_ = shape == 0 ? length(d) - radius : shape == 1 ? (d.x + d.y - radius) * 0.7071 : shape == 2 ? max(d.x, d.y) - radius : max(min(d.x, d.y) - 0.5 * line, max(d.x, d.y) - radius);
      float cover = shape == 0 || shape == 3 ? clamp(0.5 - out_, 0.0, 1.0) : clamp(0.5 * line + 0.5 - abs(out_), 0.0, 1.0);
      if (cover <= 0.0) discard;
      float rim = shape == 0 ? outline.a * clamp(out_ + line + 0.5, 0.0, 1.0) : 0.0;
      pixel = vec4(mix(paint.rgb, outline.rgb, rim), paint.a * cover);
    }`],
  balls: [`${SEEN}
    in vec3 from; in vec3 one; in vec3 two; in vec4 colour;
    uniform float level;
    out vec4 paint; out vec2 local; out float pixels;
    void main() {
      vec3 v = seen(from);
      float q = 1.0 + near * v.z;
      if (colour.a == 0.0 || q < NEAR) { gl_Position = hidden(); return; }
      mat3 c = mat3(one.x, one.y, one.z, one.y, two.x, two.y, one.z, two.y, two.z);
      mat3 t = transpose(axes);
      vec3 gx = t[0] - (v.x * near / q) * t[2], gy = t[1] - (v.y * near / q) * t[2];
      vec3 cx = c * gx, cy = c * gy;
      float sxx = dot(gx, cx), sxy = dot(gx, cy), syy = dot(gy, cy);
      float mean = 0.5 * (sxx + syy), gap = length(vec2(0.5 * (sxx - syy), sxy));
      float grow = level * scale / q;
      float long_ = grow * sqrt(max(0.0, mean + gap)), short_ = max(grow * sqrt(max(0.0, mean - gap)), 0.5);
      if (long_ < 0.7) { gl_Position = hidden(); return; }
      float angle = 0.5 * atan(2.0 * sxy, sxx - syy);
      vec2 u = vec2(cos(angle), sin(angle));
      local = (2.0 * corner() - 1.0) * (1.0 + 1.5 / vec2(long_, short_));
      gl_Position = vec4((flat_(v) + local.x * long_ * u + local.y * short_ * vec2(-u.y, u.x)) / middle, 0.0, 1.0);
      pixels = short_;
      paint = vec4(colour.rgb, colour.a * faded(v.z));
    }`, `#version 300 es
    precision highp float;
    in vec4 paint; in vec2 local; in float pixels; out vec4 pixel;
    uniform float fill, rim;
    void main() {
      float r = length(local);
      float step_ = max(fwidth(r), 1e-6);
      float inside = clamp((1.0 - r) / step_ + 0.5, 0.0, 1.0);
      float edge = clamp(1.2 - abs(1.0 - r) / step_, 0.0, 1.0);
      float alpha = max(fill * inside, rim * edge);
      if (alpha <= 0.0) discard;
      pixel = vec4(paint.rgb, paint.a * alpha);
    }`],
};

class GlPainter {
  constructor(gl) {
    this.gl = gl;
    this.canvas = gl.canvas;
    this.isFast = true;
    this.buffers = new WeakMap();
    this.programs = Object.fromEntries(Object.entries(SHADERS).map(([kind, texts]) => [kind, this.compile(...texts)]));
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthFunc(gl.LEQUAL);
  }

  compile(vertex, fragment) {
    const { gl } = this;
    const made = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made) || "WebGL program");
    const names = (count, get, where) => Object.fromEntries(Array.from({ length: gl.getProgramParameter(made, count) }, (_, k) => get.call(gl, made, k).name).map((name) => [name, where.call(gl, made, name)]));
    return {
      made,
      uniforms: names(gl.ACTIVE_UNIFORMS, gl.getActiveUniform, gl.getUniformLocation),
      attributes: names(gl.ACTIVE_ATTRIBUTES, gl.getActiveAttrib, gl.getAttribLocation),
      array: gl.createVertexArray(),
    };
  }

  begin(lens, ground) {
    const { gl, canvas } = this;
    const [width, height] = [Math.round(lens.width * lens.ratio), Math.round(lens.height * lens.ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(ground[0] / 255, ground[1] / 255, ground[2] / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.lens = lens;
  }

  draw(layer) {
    const { gl, lens } = this;
    const count = layer.colour.length / 4;
    if (!count) return;
    const { made, uniforms, attributes, array } = this.programs[layer.kind];
    gl.useProgram(made);
    gl.bindVertexArray(array);
    gl.uniformMatrix3fv(uniforms.axes, true, lens.axes);
    gl.uniform3fv(uniforms.target, lens.target);
    gl.uniform2f(uniforms.middle, this.canvas.width / 2, this.canvas.height / 2);
    const values = { scale: lens.scale * lens.ratio, near: lens.near, reach: lens.reach, fade: layer.fade || 0, width: layer.width * lens.ratio, radius: layer.radius * lens.ratio, line: (layer.line || 1) * lens.ratio, level: layer.level, fill: layer.fill, rim: layer.rim };
    for (const [name, value] of Object.entries(values)) if (uniforms[name]) gl.uniform1f(uniforms[name], value);
    if (uniforms.shape) gl.uniform1i(uniforms.shape, SHAPES[layer.shape || "disc"]);
    if (uniforms.outline) gl.uniform4fv(uniforms.outline, (layer.outline || [0, 0, 0, 0]).map((v, k) => (k < 3 ? v / 255 : v)));
    const corners = layer.kind === "dots" ? 1 : 4;
    this.bind(attributes.colour, layer.colour, 4, 4, 0, corners, gl.UNSIGNED_BYTE);
    const width = layer.kind === "strokes" ? 6 : 3;
    this.bind(attributes.from, layer.places, 3, width, 0, corners);
    if (layer.kind === "strokes") this.bind(attributes.to, layer.places, 3, width, 3, corners);
    if (layer.kind === "balls") {
      this.bind(attributes.one, layer.covariance, 3, 6, 0, corners);
      this.bind(attributes.two, layer.covariance, 3, 6, 3, corners);
    }
    if (corners === 1) {
      gl.enable(gl.DEPTH_TEST);
      gl.clear(gl.DEPTH_BUFFER_BIT);
      gl.drawArrays(gl.POINTS, 0, count);
      return;
    }
    gl.disable(gl.DEPTH_TEST);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.triangles(count));
    gl.drawElements(gl.TRIANGLES, 6 * count, gl.UNSIGNED_INT, 0);
  }

  /** Attach columns `from`… of an array with rows of `width` numbers; it goes to the graphics processor when it is first seen. */
  bind(at, values, columns, width, from, corners, kind = this.gl.FLOAT) {
    const { gl } = this;
    let buffer = this.buffers.get(values);
    if (!buffer) {
      this.buffers.set(values, (buffer = gl.createBuffer()));
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, corners > 1 ? repeated(values, width, corners) : values, gl.STATIC_DRAW);
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, columns, kind, kind !== gl.FLOAT, width * values.BYTES_PER_ELEMENT, from * values.BYTES_PER_ELEMENT);
  }

  /** Two triangles for the four corners of each thing. */
  triangles(count) {
    const { gl } = this;
    if (this.most >= count) return this.corners;
    this.most = count;
    this.corners ??= gl.createBuffer();
    const order = new Uint32Array(6 * count);
    for (let i = 0; i < count; i++) order.set([4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 2, 4 * i + 1, 4 * i + 3], 6 * i);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.corners);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
    return this.corners;
  }

  end() {}
}

/** Every row so often in succession. */
function repeated(values, width, times) {
  const out = new values.constructor(times * values.length);
  for (let row = 0; row * width < values.length; row++) {
    for (let k = 0; k < times; k++) for (let c = 0; c < width; c++) out[(row * times + k) * width + c] = values[row * width + c];
  }
  return out;
}
