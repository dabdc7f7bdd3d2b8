// Histograms and traces as SVG, drawn at the width they get so that text keeps its size.

const CHART_HEIGHT = 178;
const MARGIN = { left: 46, right: 12, top: 18, bottom: 36 };

/** Card with a title, a line of statistics and an SVG that `draw(svg, width, height, readout)` fills. */
function chartCard(parent, title, stats, draw, height = CHART_HEIGHT) {
  const svg = make("svg", { height, role: "img", "aria-label": `${title}. ${stats}` });
  const readout = make("div", { class: "readout" });
  parent.append(
    make("div", { class: "card chart" }, make("h2", {}, title), make("p", { class: "stats" }, stats || "\u00a0"), svg, readout),
  );
  const redraw = () => {
    const width = svg.clientWidth;
    if (!width) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    draw(svg, width, height, readout);
  };
  redraw(); // what is hidden has no width yet
  new ResizeObserver(redraw).observe(svg);
}

function horizontalAxis(svg, x, marks, box, label, reserved = 0) {
  svg.append(make("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  for (const mark of marks) {
    svg.append(make("line", { class: "axis", x1: x(mark), x2: x(mark), y1: box.bottom, y2: box.bottom + 4 }));
    if (reserved && x(mark) > box.right - reserved - 12) continue; // its text would run into the tail's
    svg.append(make("text", { x: x(mark), y: box.bottom + 16, "text-anchor": "middle" }, tickText(mark)));
  }
  svg.append(make("text", { x: (box.left + box.right) / 2, y: box.bottom + 31, "text-anchor": "middle" }, label));
}

function verticalAxis(svg, y, marks, box, text = tickText) {
  for (const mark of marks) {
    svg.append(make("line", { class: "axis", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) }));
    svg.append(make("text", { x: box.left - 6, y: y(mark) + 4, "text-anchor": "end" }, text(mark)));
  }
}

const plotBox = (width, height) => ({
  left: MARGIN.left,
  right: width - MARGIN.right,
  top: MARGIN.top,
  bottom: height - MARGIN.bottom,
});

function histogramChart(parent, data) {
  const { label, unit, things } = data;
  if (!data.n) return chartCard(parent, label, `no finite values among ${data.missing.toLocaleString("en")} ${things}`, () => {});
  const stats = [`median ${measure(data.median, unit)}`, `95 % below ${measure(data.q95, unit)}`, `max ${measure(data.max, unit)}`];
  if (data.missing) stats.push(`${data.missing.toLocaleString("en")} without`);
  chartCard(parent, label, stats.join(" · "), (svg, width, height, readout) => {
    const box = plotBox(width, height);
    if (!data.counts) {
      const message = `all ${data.n.toLocaleString("en")} ${things} have the value ${measure(data.median, unit)}`;
      svg.append(make("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, message));
      return;
    }
    const { start, counts, beyond } = data;
    const end = start + data.width * counts.length;
    const tail = beyond ? 34 : 0; // room for the bar that gathers the far tail
    const x = (value) => box.left + ((value - start) / (end - start)) * (box.right - tail - box.left);
    const highest = Math.max(...counts, beyond);
    const y = (count) => box.bottom - (count / highest) * (box.bottom - box.top);
    verticalAxis(svg, y, ticks(0, highest, 4).filter((t) => t > 0 && Number.isInteger(t)), box);
    const bar = (left, right, count, name, extra) => {
      const say = () => { readout.textContent = `${name}: ${count.toLocaleString("en")} ${things}`; };
      const rect = make("rect", { class: `bar ${extra}`, x: left, width: Math.max(0.5, right - left - 1), y: y(count), height: box.bottom - y(count), rx: 1 });
      const enter = () => { say(); rect.classList.add("on"); };
      const leave = () => { readout.textContent = ""; rect.classList.remove("on"); };
      svg.append(rect, make("rect", { class: "hit", x: left, width: right - left, y: box.top, height: box.bottom - box.top, onpointerenter: enter, onpointerleave: leave }));
    };
    counts.forEach((count, k) => {
      const from = start + k * data.width;
      const name = withUnit(`${tickText(from)} – ${tickText(from + data.width)}`, unit);
      bar(x(from), x(from + data.width), count, name, "");
    });
    if (beyond) bar(box.right - 24, box.right, beyond, `above ${withUnit(tickText(end), unit)}`, "tail");
    horizontalAxis(svg, x, ticks(start, end, Math.max(3, Math.floor((box.right - box.left) / 70))), box, unit ? `${label.toLowerCase()} [${unit}]` : label.toLowerCase(), tail);
    if (beyond) svg.append(make("text", { x: box.right - 12, y: box.bottom + 16, "text-anchor": "middle" }, "more"));
    const both = data.reference !== null;
    line(data.reference, "reference", "expected", both && data.reference < data.median);
    line(data.median, "median", "median", both && data.median <= data.reference);

    /** Vertical line whose text stands left of it if asked to, or if there is no room on the right. */
    function line(value, kind, text, left) {
      if (value === null || value < start || value > end) return;
      const right = (left && x(value) > box.left + 60) || x(value) > box.right - 60;
      svg.append(make("line", { class: kind, x1: x(value), x2: x(value), y1: box.top - 6, y2: box.bottom, "pointer-events": "none" }));
      svg.append(make("text", { class: `${kind}-text`, x: x(value) + (right ? -5 : 5), y: 14, "text-anchor": right ? "end" : "start", "pointer-events": "none" }, text));
    }
  });
}

function traceChart(parent, data) {
  const { steps, values, log } = data;
  const known = values.filter((v) => v !== null);
  if (!known.length) return chartCard(parent, data.label, "no values", () => {});
  const last = known[known.length - 1];
  const stats = `last ${number(last, 6)} · smallest ${number(Math.min(...known), 6)}`;
  chartCard(parent, data.label, stats, (svg, width, height, readout) => {
    const box = plotBox(width, height);
    box.left += 16;
    const map = log ? Math.log10 : (v) => v;
    let low = map(Math.min(...known));
    let high = map(Math.max(...known));
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) { low -= 0.5 * Math.max(Math.abs(low) * 0.1, 1e-9); high += 0.5 * Math.max(Math.abs(high) * 0.1, 1e-9); }
    const pad = 0.04 * (high - low);
    low -= pad;
    high += pad;
    const first = Math.min(...steps);
    const final = Math.max(...steps);
    const x = (step) => box.left + (final > first ? (step - first) / (final - first) : 0.5) * (box.right - box.left);
    const y = (value) => box.bottom - ((map(value) - low) / (high - low)) * (box.bottom - box.top);
    const marks = log ? logTicks(low, high) : ticks(low, high, 4);
    const powers = log && marks.every((mark) => Number.isInteger(Math.log10(mark)));
    verticalAxis(svg, y, marks, box, powers ? powerText : tickText);
    horizontalAxis(svg, x, ticks(first, final > first ? final : first + 1, Math.floor((box.right - box.left) / 80)).filter((t) => t <= final), box, "step");
    const centre = (box.top + box.bottom) / 2;
    svg.append(make("text", { x: 0, y: 0, transform: `translate(10 ${centre}) rotate(-90)`, "text-anchor": "middle" }, data.ylabel + (log ? " (log)" : "")));
    svg.append(make("path", { class: "curve", d: curve(steps, values, x, y) }));
    if (known.length === 1) svg.append(make("circle", { class: "lone", cx: x(steps[values.indexOf(last)]), cy: y(last), r: 3 }));
    for (const [step, text] of data.marks) {
      if (step < first || step > final) continue;
      const right = x(step) > box.right - 8 * text.length;
      svg.append(make("line", { class: "mark", x1: x(step), x2: x(step), y1: box.top - 6, y2: box.bottom }));
      svg.append(make("text", { class: "mark-text", x: x(step) + (right ? -5 : 5), y: box.top + 1, "text-anchor": right ? "end" : "start" }, text));
    }
    const cross = make("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const follow = (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      let nearest = 0;
      for (let i = 1; i < steps.length; i++) if (Math.abs(x(steps[i]) - at) < Math.abs(x(steps[nearest]) - at)) nearest = i;
      cross.setAttribute("x1", x(steps[nearest]));
      cross.setAttribute("x2", x(steps[nearest]));
      cross.setAttribute("visibility", "visible");
      readout.textContent = `step ${tickText(steps[nearest])}: ${number(values[nearest], 6)}`;
    };
    const leave = () => { cross.setAttribute("visibility", "hidden"); readout.textContent = ""; };
    svg.append(cross, make("rect", { class: "hit", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, onpointermove: follow, onpointerleave: leave }));
  });
}

function curve(steps, values, x, y) {
  let path = "";
  let pen = "M";
  for (let i = 0; i < steps.length; i++) {
    if (values[i] === null) { pen = "M"; continue; }
    path += `${pen}${x(steps[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
    pen = "L";
  }
  return path;
}

function logTicks(low, high) {
  const stride = Math.max(1, Math.round((high - low) / 4));
  const powers = [];
  for (let k = Math.ceil(low); k <= high; k++) if (k % stride === 0) powers.push(10 ** k);
  if (powers.length >= 2) return powers;
  return ticks(10 ** low, 10 ** high, 4).filter((t) => t > 0);
}
