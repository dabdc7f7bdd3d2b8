// Charts of comparisons and calibrations: bars with names, curves in a band, shares beside what they should be.

const ROW = 19; // height of a bar with its name
const SERIES = ["#1f5fa8", "#2e8b57", "#8fb0d8", "#9ccfb0"];
const CURVES = { U: "#d0463b", node: "#3a6fd0", pair: "#2e9b63", distance: "#9a5fd0", landmark: "#d98e04", fit: "#8a8f98" };

function main() {
  const payload = JSON.parse(byId("data").textContent);
  const draw = { bars: barChart, curves: curveChart, shares: shareChart };
  payload.charts.forEach((chart) => draw[chart.kind](byId("charts"), chart));
  document.documentElement.dataset.ready = "yes";
}

/** A bar for each name, on a logarithmic axis where values differ by orders of magnitude; names without a value are said. */
function barChart(parent, { label, unit, log, names, values, marked }) {
  const known = values.filter((v) => v !== null && (!log || v > 0));
  const stats = known.length ? `least ${measure(Math.min(...known), unit)} · largest ${measure(Math.max(...known), unit)}${log ? " · logarithmic" : ""}` : "no values";
  chartCard(parent, label, stats, (svg, width, height, readout) => {
    const box = { left: Math.min(150, 12 + 7 * Math.max(...names.map((name) => name.length))), right: width - 58, top: 6, bottom: 6 + ROW * names.length };
    const map = log ? Math.log10 : (v) => v;
    const low = log ? Math.floor(map(Math.min(...known)) - 0.3) : 0;
    const high = known.length ? map(Math.max(...known)) : 1;
    const x = (value) => box.left + (high > low ? (map(value) - low) / (high - low) : 1) * (box.right - box.left);
    const marks = log ? logTicks(low, high) : ticks(low, high > low ? high : 1, 4);
    horizontalAxis(svg, x, marks, box, unit);
    names.forEach((name, k) => {
      const y = box.top + ROW * k;
      const value = values[k];
      const isShown = value !== null && (!log || value > 0);
      const enter = () => { readout.textContent = `${name}: ${value === null ? "no value" : measure(value, unit, 4)}`; };
      svg.append(make("text", { x: box.left - 7, y: y + 13, "text-anchor": "end", class: k === marked ? "mine" : null }, name));
      if (isShown) svg.append(make("rect", { class: k === marked ? "bar mine" : "bar", x: box.left, y: y + 3, width: Math.max(1, x(value) - box.left), height: ROW - 6, rx: 2 }));
      svg.append(make("text", { x: isShown ? x(value) + 5 : box.left + 5, y: y + 13 }, isShown ? number(value) : value === 0 ? "0" : "–"));
      svg.append(make("rect", { class: "hit", x: 0, y, width, height: ROW, onpointerenter: enter, onpointerleave: () => { readout.textContent = ""; } }));
    });
  }, 6 + ROW * names.length + 40);
}

/** Distribution functions minus the uniform one; they stay in the band if all is well. */
function curveChart(parent, { label, stats, band, curves }) {
  chartCard(parent, label, stats, (svg, width, height, readout) => {
    const box = plotBox(width, height);
    const most = 1.15 * Math.max(band, ...curves.flatMap(({ y }) => y.map(Math.abs)));
    const x = (u) => box.left + u * (box.right - box.left);
    const y = (v) => (box.top + box.bottom) / 2 - (v / most) * ((box.bottom - box.top) / 2);
    svg.append(make("rect", { class: "band", x: box.left, width: box.right - box.left, y: y(band), height: y(-band) - y(band) }));
    verticalAxis(svg, y, ticks(-most, most, 6), box);
    horizontalAxis(svg, x, [0, 0.25, 0.5, 0.75, 1], box, "rank of the truth");
    for (const { name, group, x: us, y: vs } of curves) {
      const path = us.map((u, k) => `${k ? "L" : "M"}${x(u).toFixed(1)} ${y(vs[k]).toFixed(1)}`).join("");
      svg.append(make("path", { class: "curve", d: path, style: `stroke: ${CURVES[group]}; stroke-width: ${group === "U" ? 2 : 1.1}`, onpointerenter: () => { readout.textContent = name; }, onpointerleave: () => { readout.textContent = ""; } }));
    }
  });
}

/** Shares of truths inside regions, with two standard errors, and a line where each should be. */
function shareChart(parent, { label, stats, levels, series }) {
  chartCard(parent, label, stats, (svg, width, height, readout) => {
    const box = plotBox(width, height);
    const y = (share) => box.bottom - (share / 1.08) * (box.bottom - box.top);
    const slot = (box.right - box.left) / levels.length;
    const thick = (0.8 * slot) / series.length;
    verticalAxis(svg, y, [0, 0.5, 1], box, (v) => `${Math.round(100 * v)} %`);
    levels.forEach((level, k) => {
      const left = box.left + k * slot + 0.1 * slot;
      series.forEach(({ name, share, error }, s) => {
        if (share[k] === null) return;
        const at = left + s * thick;
        const enter = () => { readout.textContent = `${name}, ${Math.round(100 * level)} %: ${(100 * share[k]).toFixed(1)} ± ${(100 * error[k]).toFixed(1)} %`; };
        svg.append(make("rect", { x: at, width: thick - 1, y: y(share[k]), height: box.bottom - y(share[k]), style: `fill: ${SERIES[s]}` }));
        svg.append(make("line", { class: "error", x1: at + thick / 2, x2: at + thick / 2, y1: y(share[k] + 2 * error[k]), y2: y(share[k] - 2 * error[k]) }));
        svg.append(make("rect", { class: "hit", x: at, width: thick, y: box.top, height: box.bottom - box.top, onpointerenter: enter, onpointerleave: () => { readout.textContent = ""; } }));
      });
      svg.append(make("line", { class: "wanted", x1: left - 3, x2: left + 0.8 * slot + 3, y1: y(level), y2: y(level) }));
      svg.append(make("text", { x: left + 0.4 * slot, y: box.bottom + 16, "text-anchor": "middle" }, `${Math.round(100 * level)} %`));
    });
  });
}

main();
