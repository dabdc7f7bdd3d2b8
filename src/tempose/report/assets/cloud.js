// Ties the view of a reconstruction, its controls and its photographs together.

async function main() {
  const payload = JSON.parse(byId("data").textContent);
  const cloud = { ...payload };
  for (const name of Object.keys(payload)) if (payload[name]?.dtype) cloud[name] = await unpack(payload[name]);
  const view = new CloudView(byId("canvas"), cloud, {
    hover: (thing, at) => showTip(cloud, thing, at),
    select: (thing) => { showSelection(view, cloud, thing); markPhotograph(thing); },
    hint: hintWheel,
    touched: endHint,
  });
  connectControls(view, cloud);
  connectToolbar(view, payload.title);
  showPhotographs(view, cloud);
  showSelection(view, cloud, null);
  view.show("reset", false); // again: the legend's size is known now
  if (isTouch()) hint("One finger turns, two move and zoom, tap a camera for its photograph", 0);
  payload.histograms.forEach((histogram) => histogramChart(byId("histograms"), histogram));
  document.documentElement.dataset.ready = "yes";
}

function connectControls(view, cloud) {
  const weak = cloud.weak.reduce((sum, w) => sum + w, 0);
  byId("weak").disabled = !weak;
  byId("weak-label").textContent = weak ? `Show ${plural(weak, "weak point")}` : "No weak points";
  byId("ellipsoid-group").hidden = !cloud.covariance.length;
  byId("pairs-row").hidden = !cloud.pairs.length;
  if (!cloud.photo.length) [...byId("colour").options].find((option) => option.value === "photo").remove();
  const typical = median(Array.from({ length: cloud.covariance.length / 6 }, (_, c) => Math.sqrt((cloud.covariance[6 * c] + cloud.covariance[6 * c + 3] + cloud.covariance[6 * c + 5]) / 3)).filter((s) => s > 0));
  const fitting = typical > 0 ? Math.max(1, (0.05 * cloud.near) / typical) : 1;
  byId("factor").value = Math.min(150, 50 * Math.log10(roundStep(fitting) / (roundStep(fitting) > fitting ? 2 : 1) || 1));
  const sorted = Float32Array.from(cloud.sigma.filter((s, k) => s > 0 && !cloud.weak[k])).sort();
  const apply = () => {
    const share = Number(byId("cut").value) / 100;
    const [low, high] = [sorted[0], sorted[sorted.length - 1]];
    const cut = share >= 1 || !sorted.length ? Infinity : low * (high / low) ** share;
    const shown = cut === Infinity ? sorted.length : sorted.findIndex((s) => s > cut);
    byId("cut-value").textContent = cut === Infinity ? `all ${plural(sorted.length, "good point")} shown` : `σ ≤ ${measure(cut, cloud.unit)}: ${plural(shown < 0 ? sorted.length : shown, "point")} of ${sorted.length.toLocaleString("en")}`;
    const factor = Math.max(1, Number((10 ** (Number(byId("factor").value) / 50)).toPrecision(2)));
    byId("factor-value").textContent = `×${tickText(factor)}`;
    view.set({ colour: byId("colour").value, cut, size: Number(byId("size").value), weak: byId("weak").checked, cameras: byId("cameras").checked, ellipsoids: byId("ellipsoids").checked, pairs: byId("pairs").checked, factor });
  };
  byId("controls").addEventListener("input", apply);
  apply();
}

const pictureOf = (camera) => (camera.picture ? make("img", { src: `data:image/jpeg;base64,${camera.picture}`, alt: "" }) : null);

function cameraFacts(cloud, { rotation, position, residual, points }) {
  return [["rotation σ", measure(rotation, "°")], ["position σ", measure(position, cloud.unit)], ["points", points.toLocaleString("en")], ["residual of them", measure(residual, "px")]];
}

function pointFacts(cloud, i) {
  return [["σ", measure(cloud.sigma[i], cloud.unit)], ["own image noise", measure(cloud.image[i], cloud.unit)], ["from the cameras", measure(cloud.pose[i], cloud.unit)], ["views", String(cloud.views[i])]];
}

function showTip(cloud, thing, at) {
  const tip = byId("tip");
  tip.hidden = !thing;
  if (!thing) return;
  const camera = thing.kind === "camera" ? cloud.cameras[thing.index] : null;
  const lines = camera ? cameraFacts(cloud, camera) : pointFacts(cloud, thing.index);
  tip.replaceChildren(...[camera ? pictureOf(camera) : null, make("b", {}, camera ? camera.name : "point"), ...lines.map(([name, value]) => make("span", {}, `${name} ${value}`))].filter(Boolean));
  const stage = tip.parentElement;
  const left = at.x + 16 + tip.offsetWidth > stage.clientWidth ? at.x - tip.offsetWidth - 12 : at.x + 16;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, Math.min(at.y + 14, stage.clientHeight - tip.offsetHeight - 6))}px)`;
}

function showSelection(view, cloud, thing) {
  const panel = byId("selection");
  if (!thing) {
    panel.replaceChildren(make("p", { class: "fine" }, howTo(false, "a camera or a point")));
    return;
  }
  const camera = thing.kind === "camera" ? cloud.cameras[thing.index] : null;
  const facts = camera ? cameraFacts(cloud, camera) : pointFacts(cloud, thing.index);
  panel.replaceChildren(...[
    camera ? pictureOf(camera) : null,
    make("h3", {}, camera ? camera.name : "Point"),
    make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    make("div", { class: "actions" }, ...[camera ? make("button", { type: "button", onclick: () => view.lookFrom(thing.index) }, "Look from it") : null, make("button", { type: "button", onclick: () => view.select(null) }, "Clear")].filter(Boolean)),
  ].filter(Boolean));
}

/** One button a photograph: its picture if there is one, and its numbers; the least sure first. */
function showPhotographs(view, cloud) {
  const order = cloud.cameras.map((_, k) => k).sort((a, b) => (cloud.cameras[b].position ?? Infinity) - (cloud.cameras[a].position ?? Infinity));
  byId("photographs").replaceChildren(...order.map((k) => {
    const camera = cloud.cameras[k];
    const choose = () => { view.select({ kind: "camera", index: k }, true); byId("viewer").scrollIntoView({ behavior: "smooth", block: "nearest" }); };
    const lines = [`${measure(camera.rotation, "°")} · ${measure(camera.position, cloud.unit)}`, `${plural(camera.points, "point")} · ${measure(camera.residual, "px", 2)}`];
    return make("button", { type: "button", class: "photograph", "data-index": k, onclick: choose, title: "Look from this camera" }, pictureOf(camera), make("b", {}, camera.name), ...lines.map((line) => make("span", {}, line)));
  }));
}

function markPhotograph(thing) {
  for (const button of byId("photographs").children) button.classList.toggle("on", thing?.kind === "camera" && Number(button.dataset.index) === thing.index);
}

main().catch(reportFailure);
