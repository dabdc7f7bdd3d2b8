// Ties the view, the controls, the tables and the charts together.

// σ that a level means, and per cent of a Gaussian within, in two and in three dimensions
const LEVELS = {
  1: { name: "1σ", sigmas: { 2: 1, 3: 1 }, holds: { 2: "39", 3: "20" } },
  2: { name: "2σ", sigmas: { 2: 2, 3: 2 }, holds: { 2: "86", 3: "74" } },
  95: { name: "95%", sigmas: { 2: 2.4477, 3: 2.7955 }, holds: { 2: "95", 3: "95" } },
};
const TABLE_ROWS = 20;

async function main() {
  const payload = JSON.parse(byId("data").textContent);
  const scene = await Scene.load(payload);
  const tip = byId("tip");
  const viewer = new GraphView(byId("canvas"), scene, {
    hover: (thing, at) => showTip(tip, scene, thing, at),
    select: (thing) => { showSelection(viewer, scene, thing); tables.forEach((table) => table.mark(thing)); },
    hint: hintWheel,
    touched: endHint,
  });
  const tables = makeTables(viewer, scene);
  connectControls(viewer, scene);
  connectToolbar(viewer, payload.title);
  connectSearch(viewer, scene);
  connectVariants(viewer, scene, tables);
  if (isTouch()) hint(scene.planar ? "One finger moves, two zoom, tap for numbers" : "One finger turns, two move and zoom, tap for numbers", 0);
  showSelection(viewer, scene, null);
  payload.traces.forEach((trace) => traceChart(byId("traces"), trace));
  payload.histograms.forEach((histogram) => histogramChart(byId("histograms"), histogram));
  document.documentElement.dataset.ready = "yes";
}

// ── controls ─────────────────────────────────────────────────────────────────────────────────────────────────

function connectControls(viewer, scene) {
  offer(byId("colour"), ["sigma_pos", "sigma_rot_deg", "component", "none"].filter((kind) => scene.hasColour(kind)));
  const edgeKinds = ["edge_outlier", "edge_surprise", "edge_rotation_deg", "edge_translation"].filter((kind) => scene[kind] && scene.edgeLimits(kind));
  offer(byId("edge-colour"), [...edgeKinds, "none"]);
  if (!scene.edge_surprise) byId("edge-colour").value = "none";
  const worst = scene.worst.length === 1 ? scene.worstName() : `${scene.worst.length} ${scene.worstName()}s`;
  const none = scene.edge_outlier ? "No edge is distrusted" : `No edge above ${WORST_ABOVE} to highlight`;
  byId("worst-label").textContent = scene.worst.length ? `Highlight the ${worst}` : none;
  byId("worst").disabled = !scene.worst.length;
  for (const row of ["edges-row", "worst-row"]) byId(row).hidden = scene.m === 0;
  byId("ellipsoid-group").hidden = !scene.ellipsoids;
  byId("overlay-row").hidden = !scene.draws && !scene.truth && !scene.fixes;
  byId("draws-check").hidden = !scene.draws;
  byId("fixes-check").hidden = !scene.fixes;
  flatten(scene);
  byId("truth-check").hidden = !scene.truth;
  byId("up").value = viewer.options.up;
  if (scene.draws) byId("draws-label").textContent = `${scene.draws.count} posterior draws`;
  if (scene.ellipsoids) byId("factor").value = placeOf(fittingFactor(scene));

  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
  const apply = () => {
    const factor = factorOf(Number(byId("factor").value));
    const dimension = scene.planar ? 2 : 3;
    const level = LEVELS[chosen("level")];
    byId("factor-value").textContent = `×${tickText(factor)}`;
    byId("content").textContent = `${number(level.sigmas[dimension])}σ hold ${level.holds[dimension]} % of a Gaussian in ${dimension === 2 ? "the plane" : "space"}.`;
    const up = byId("up").value;
    viewer.set({
      colour: byId("colour").value, poses: chosen("poses"), edges: byId("edges").checked, edgeColour: byId("edge-colour").value,
      worst: byId("worst").checked, ellipsoids: byId("ellipsoids").checked, level: level.sigmas[dimension], levelName: level.name, factor,
      draws: byId("draws").checked, truth: byId("truth").checked, fixes: byId("fixes").checked, ...(up === viewer.options.up ? {} : { up }),
    });
  };
  byId("controls").addEventListener("input", apply);
  apply();
  viewer.show("reset", false); // again: the legend's size is known now
}

/** A plane has no other side: no turning, no up axis, no cameras, ellipses in place of ellipsoids. */
function flatten(scene) {
  if (!scene.planar) return;
  for (const view of ["top", "front", "side"]) document.querySelector(`[data-view="${view}"]`).hidden = true;
  document.querySelector('[data-view="reset"]').title = "Whole graph (key 0, or double-click)";
  byId("up").parentElement.hidden = true;
  document.querySelector('input[name="poses"][value="cameras"]').parentElement.hidden = true;
  byId("ellipsoids-label").textContent = "Error ellipses";
  byId("canvas").setAttribute("aria-label", "Pose graph in the plane. Arrow keys move, plus and minus zoom, 0 resets.");
}

/** Leave only the options that exist, and choose the first. */
function offer(select, kinds) {
  for (const option of [...select.options]) if (!kinds.includes(option.value)) option.remove();
  select.value = kinds[0];
}

/** Slider place 0…100 → factor 0.01…100, rounded to two digits; 50 is the true size. */
const factorOf = (place) => Number((10 ** ((place - 50) / 25)).toPrecision(2));
const placeOf = (factor) => 50 + 25 * Math.log10(factor);

/** The factor at which a typical ellipsoid is seen and does not hide the graph: true size unless it is tiny or as large as the graph. */
function fittingFactor(scene) {
  const share = (2 * scene.typicalSigma()) / scene.radius;
  const round = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
  if (share > 0.2) return round.filter((factor) => factor * share <= 0.12).pop() || 0.01;
  return round.filter((factor) => factor === 1 || (factor > 1 && factor * share <= 0.02)).pop();
}

/** A button above the picture for each explanation; the card of one chooses it, too. */
function connectVariants(viewer, scene, tables) {
  const labels = [scene.label, ...scene.variants.map((variant) => variant.label)];
  if (labels.length < 2) return;
  const strip = byId("variants");
  const cards = [...document.querySelectorAll(".explanation")];
  const choose = (k) => {
    viewer.choose(k);
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", at === k));
    cards.forEach((card, at) => card.classList.toggle("on", at === k));
    tables.forEach((table) => table.refresh());
    showSelection(viewer, scene, viewer.selected);
  };
  const buttons = labels.map((label, k) => make("button", { type: "button", onclick: () => choose(k) }, label[0].toUpperCase() + label.slice(1)));
  strip.hidden = false;
  strip.append(make("span", {}, "The measurements allow more than one answer:"), ...buttons);
  cards.slice(0, labels.length).forEach((card, k) => {
    card.append(make("button", { type: "button", class: "look", onclick: () => { choose(k); strip.scrollIntoView({ behavior: "smooth", block: "start" }); } }, "Show in the picture"));
  });
  choose(0);
}

function connectSearch(viewer, scene) {
  const query = byId("query");
  const list = byId("matches");
  const choose = (node) => {
    list.hidden = true;
    query.value = scene.ids[node];
    viewer.select({ kind: "node", index: node }, true);
  };
  const search = () => {
    const wanted = query.value.trim().toLowerCase();
    const found = wanted ? matches(scene.ids, wanted, 8) : [];
    list.hidden = !wanted;
    list.replaceChildren(...found.map((node) => make("li", {}, make("button", { type: "button", onclick: () => choose(node) }, scene.ids[node] || "(empty id)"))));
    if (wanted && !found.length) list.append(make("li", { class: "none" }, "no such node"));
    return found;
  };
  query.addEventListener("input", search);
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { list.querySelector("button")?.focus(); event.preventDefault(); }
    if (event.key === "Escape") list.hidden = true;
  });
  list.addEventListener("keydown", (event) => {
    const item = document.activeElement.parentElement;
    const next = { ArrowDown: item.nextElementSibling, ArrowUp: item.previousElementSibling }[event.key];
    if (next) { next.querySelector("button").focus(); event.preventDefault(); }
  });
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const [first] = search();
    if (first !== undefined) choose(first);
  });
  document.addEventListener("pointerdown", (event) => { if (!byId("search").contains(event.target)) list.hidden = true; });
}

/** Node indices whose id is, begins with, or contains the text, in this order. */
function matches(ids, wanted, most) {
  const ranked = [[], [], []];
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i].toLowerCase();
    const at = id.indexOf(wanted);
    if (at < 0) continue;
    ranked[id === wanted ? 0 : at === 0 ? 1 : 2].push(i);
  }
  return ranked.flat().slice(0, most);
}

// ── what is under the pointer, what is selected ──────────────────────────────────────────────────────────────

function edgeName(scene, edge) {
  return `${scene.ids[scene.edges[2 * edge]]} → ${scene.ids[scene.edges[2 * edge + 1]]}`;
}

function edgeFacts(scene, edge) {
  const length = scene.edge_translation[edge];
  const turn = scene.edge_rotation_deg[edge];
  const facts = [["rotation residual", Number.isNaN(turn) ? "measures no rotation" : measure(turn, "°")]];
  facts.push(["translation residual", Number.isNaN(length) ? "rotation-only edge" : measure(length, scene.unit)]);
  if (scene.edge_outlier) facts.push(["inlier probability", number(1 - scene.edge_outlier[edge])]);
  if (scene.edge_surprise) facts.push(["surprise", number(scene.edge_surprise[edge])]);
  return facts;
}

function sigmaFacts(scene, node) {
  const facts = [];
  if (scene.sigma_pos) facts.push(["position σ", measure(scene.sigma_pos[node], scene.unit)]);
  if (scene.sigma_rot_deg) facts.push(["rotation σ", measure(scene.sigma_rot_deg[node], "°")]);
  return facts;
}

function showTip(tip, scene, thing, at) {
  tip.hidden = !thing;
  if (!thing) return;
  const facts = thing.kind === "node" ? sigmaFacts(scene, thing.index) : edgeFacts(scene, thing.index);
  const title = thing.kind === "node" ? `node ${scene.ids[thing.index]}` : `edge ${edgeName(scene, thing.index)}`;
  tip.replaceChildren(make("b", {}, title), ...facts.map(([name, value]) => make("span", {}, `${name} ${value}`)));
  const stage = tip.parentElement;
  const left = at.x + 16 + tip.offsetWidth > stage.clientWidth ? at.x - tip.offsetWidth - 12 : at.x + 16;
  const top = Math.min(at.y + 14, stage.clientHeight - tip.offsetHeight - 6);
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

function showSelection(viewer, scene, thing) {
  const panel = byId("selection");
  if (!thing) {
    panel.replaceChildren(make("p", { class: "fine" }, howTo(scene.planar, "a node or an edge")));
    return;
  }
  const facts = thing.kind === "node" ? nodeFacts(viewer, scene, thing.index) : [...edgeFacts(scene, thing.index), ...edgePlace(viewer, scene, thing.index)];
  const title = thing.kind === "node" ? `Node ${scene.ids[thing.index]}` : `Edge ${edgeName(scene, thing.index)}`;
  panel.replaceChildren(
    make("h3", {}, title),
    make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("div", { class: "actions" },
      make("button", { type: "button", onclick: () => viewer.select(thing, true) }, "Zoom to it"),
      make("button", { type: "button", onclick: () => viewer.select(null) }, "Clear")),
  );
  panel.scrollTop = 0;
}

function nodeFacts(viewer, scene, node) {
  const facts = sigmaFacts(scene, node);
  const axes = scene.principal(node);
  if (axes) facts.push(["σ on axes", withUnit(axes.slice(0, scene.planar ? 2 : 3).map(({ sigma }) => number(sigma, 2)).join(" · "), scene.unit)]);
  if (scene.layout === "positions") {
    const digits = Math.max(2, Math.min(6, 3 - Math.floor(Math.log10(scene.radius))));
    const place = [0, 1, 2].map((k) => (scene.positions[3 * node + k] + scene.origin[k]).toFixed(digits).replace("-", "−"));
    place.slice(0, scene.planar ? 2 : 3).forEach((value, k) => facts.push(["xyz"[k], withUnit(value, scene.unit)]));
  }
  const r = scene.wxyz.subarray(4 * node, 4 * node + 4);
  const kind = scene.kind ? scene.kind[node] : KINDS.pose;
  if (kind === KINDS.landmark) facts.push(["landmark", "a position, no orientation"]);
  else if (scene.planar) facts.push(["heading", measure((360 / Math.PI) * Math.atan2(r[3], r[0]) - 360 * Math.round(Math.atan2(r[3], r[0]) / Math.PI), "°")]);
  else facts.push(["wxyz", [...r].map((value) => (value / 32767).toFixed(3).replace("-", "−")).join(" ")]);
  if (kind === KINDS.fixed) facts.push(["fixed", "held where it is"]);
  if (scene.truth) {
    const error = Math.hypot(...[0, 1, 2].map((k) => scene.positions[3 * node + k] - scene.truth[3 * node + k]));
    facts.push(["to truth", measure(error, scene.unit)]);
  }
  if (scene.components > 1) facts.push(["component", String(scene.component[node])]);
  facts.push(["edges", String(scene.degree[node])]);
  const measured = scene.edge_surprise || scene.edge_rotation_deg;
  let worst = -1;
  for (let e = 0; e < scene.m; e++) {
    if (scene.edges[2 * e] !== node && scene.edges[2 * e + 1] !== node) continue;
    if (worst < 0 || measured[e] > measured[worst]) worst = e;
  }
  if (worst >= 0) facts.push(["worst edge", make("button", { class: "link", type: "button", onclick: () => viewer.select({ kind: "edge", index: worst }) }, edgeName(scene, worst))]);
  return facts;
}

function edgePlace(viewer, scene, edge) {
  const facts = [];
  if (scene.edge_surprise) {
    let rank = 1;
    for (const value of scene.edge_surprise) if (value > scene.edge_surprise[edge]) rank++;
    facts.push(["rank by surprise", `${rank.toLocaleString("en")} of ${scene.m.toLocaleString("en")}`]);
  }
  if (scene.layout === "positions") facts.push(["length", measure(scene.edgeLength(edge), scene.unit)]);
  for (const [name, node] of [["from", scene.edges[2 * edge]], ["to", scene.edges[2 * edge + 1]]]) {
    facts.push([name, make("button", { class: "link", type: "button", onclick: () => viewer.select({ kind: "node", index: node }) }, scene.ids[node] || "(empty id)")]);
  }
  return facts;
}

// ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────

function makeTables(viewer, scene) {
  const withUnitName = (name, unit) => (unit ? `${name} [${unit}]` : name);
  const nodeColumns = [];
  if (scene.sigma_pos) nodeColumns.push({ name: withUnitName("position σ", scene.unit), of: "sigma_pos" });
  if (scene.sigma_rot_deg) nodeColumns.push({ name: "rotation σ [°]", of: "sigma_rot_deg" });
  const uncertain = nodeColumns.length > 0;
  nodeColumns.push({ name: "edges", of: "degree", whole: true });
  if (scene.components > 1) nodeColumns.push({ name: "component", of: "component", whole: true });
  const edgeColumns = [];
  if (scene.edge_surprise) edgeColumns.push({ name: "surprise", of: "edge_surprise" });
  if (scene.edge_outlier) edgeColumns.push({ name: "distrust", of: "edge_outlier" });
  edgeColumns.push({ name: "rotation [°]", of: "edge_rotation_deg", missing: "no rotation" });
  if (scene.limits.edge_translation) edgeColumns.push({ name: withUnitName("translation", scene.unit), of: "edge_translation", missing: "rotation only" });

  byId("node-card").hidden = !uncertain;
  byId("edge-card").hidden = scene.m === 0;
  if (!scene.edge_surprise) byId("edge-card").querySelector("h2").textContent = "Edges of largest residual";
  const node = rankedTable(byId("node-table"), "node", nodeColumns, (i) => scene.ids[i], scene, viewer);
  const edge = rankedTable(byId("edge-table"), "edge", edgeColumns, (i) => edgeName(scene, i), scene, viewer);
  return [node, edge];
}

/** Table of the 20 things that rank first by one column; a click on a column ranks all things anew. */
function rankedTable(table, kind, columns, nameOf, scene, viewer) {
  const count = kind === "node" ? scene.n : scene.m;
  let sorted = columns[0];
  let sign = 1;
  let marked = null;
  const body = make("tbody");
  const head = make("tr");
  table.replaceChildren(make("thead", {}, head), body);

  function header(column, text) {
    const active = column === sorted;
    const arrow = active ? (sign > 0 ? " ↓" : " ↑") : "";
    const turn = () => { sign = active ? -sign : 1; sorted = column; render(); };
    return make("th", { scope: "col", "aria-sort": active ? (sign > 0 ? "descending" : "ascending") : null }, column ? make("button", { type: "button", onclick: turn, title: active ? "Reverse the order" : `Rank all by ${text}` }, text + arrow) : text);
  }
  function render() {
    head.replaceChildren(make("th", { scope: "col" }, kind === "node" ? "node" : "edge"), ...columns.map((column) => header(column, column.name)));
    body.replaceChildren(...largest(scene[sorted.of], TABLE_ROWS, sign).map(row));
    if (count > TABLE_ROWS) table.parentElement.parentElement.querySelector("h2").title = `the first ${TABLE_ROWS} of ${count.toLocaleString("en")}`;
  }
  function row(index) {
    const choose = () => viewer.select({ kind, index }, true);
    const name = make("button", { class: "link", type: "button" }, nameOf(index) || "(empty id)");
    const cells = columns.map(({ of, whole, missing }) => {
      const values = scene[of];
      const absent = Number.isNaN(values[index]);
      return make("td", { class: absent ? "missing" : null }, absent ? missing || "–" : whole ? String(values[index]) : number(values[index]));
    });
    return make("tr", { "data-index": index, class: marked === index ? "on" : null, onclick: choose }, make("td", {}, name), ...cells);
  }
  render();
  return {
    refresh: render,
    mark(thing) {
      marked = thing && thing.kind === kind ? thing.index : null;
      for (const line of body.children) line.classList.toggle("on", Number(line.dataset.index) === marked);
    },
  };
}

main().catch(reportFailure);
