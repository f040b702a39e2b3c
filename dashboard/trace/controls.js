// What the reader can do.

const element = (id) => document.getElementById(id);
const slider = element("now");

// draw draws everything again, at once.
function draw() {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(area.width * ratio);
  const height = Math.round(area.height * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  paper.setTransform(ratio, 0, 0, ratio, 0, 0);
  paper.fillStyle = ink.paper;
  paper.fillRect(0, 0, area.width, area.height);
  paper.textAlign = "left";
  canvas.dataset.drawn = shown.tree ? drawTree() : drawDiagram();
}

// redraw draws before the next frame, once however often it is asked.
let planned = false;
function redraw() {
  if (!planned) {
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      draw();
    });
  }
}

function resize() {
  area.width = canvas.clientWidth;
  area.height = canvas.clientHeight;
  draw();
}

// goTo shows the run as it stands at a moment.
function goTo(now) {
  shown.now = Math.max(0, Math.min(now, run.end));
  const whole = Math.floor(shown.now);
  slider.value = String(whole);
  const text = tell(whole);
  if (element("moment").textContent !== text) {
    slider.setAttribute("aria-valuetext", text);
    element("moment").textContent = text;
  }
  redraw();
}

// step goes to the next whole moment in a direction.
function step(by) {
  pause();
  goTo(by > 0 ? Math.floor(shown.now) + by : Math.ceil(shown.now) + by);
}

// Playing takes about ten seconds for a run, longer for long ones.
const perSecond = Math.max(2, run.end / 10);
let playing = 0; // the frame asked for; 0: not playing

function play() {
  if (shown.now >= run.end) {
    goTo(0);
  }
  let before = performance.now();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const frame = (at) => {
    const passed = ((at - before) / 1000) * perSecond;
    if (!calm || passed >= 1) {
      before = at;
      goTo(shown.now + Math.max(passed, 0));
    }
    playing = shown.now < run.end ? requestAnimationFrame(frame) : 0;
    showPlaying();
  };
  playing = requestAnimationFrame(frame);
  showPlaying();
}

function pause() {
  cancelAnimationFrame(playing);
  playing = 0;
  showPlaying();
}

function showPlaying() {
  const button = element("play");
  button.textContent = playing ? "❚❚" : "▶";
  button.setAttribute("aria-label", playing ? "Pause" : "Play");
}

// zoom enlarges around a point of the canvas, times, processes or both.
function zoom(factor, px, py, times = true, ranks = true) {
  const v = shown.view;
  const t = timeAt(px);
  const r = rankAt(py);
  const all = wholeView();
  const bounded = (span, least, most) => Math.max(least, Math.min(span, most));
  if (times) {
    const span = bounded((v.t1 - v.t0) / factor, 2, 2 * (all.t1 - all.t0));
    const f = span / (v.t1 - v.t0);
    v.t0 = t - (t - v.t0) * f;
    v.t1 = v.t0 + span;
  }
  if (ranks) {
    const span = bounded((v.r1 - v.r0) / factor, 2, 2 * (all.r1 - all.r0));
    const f = span / (v.r1 - v.r0);
    v.r0 = r - (r - v.r0) * f;
    v.r1 = v.r0 + span;
  }
  keepInSight();
}

// move shifts the picture by pixels.
function move(dx, dy) {
  const v = shown.view;
  const dt = (dx / plot.width) * (v.t1 - v.t0);
  const dr = (dy / plot.height) * (v.r1 - v.r0);
  v.t0 -= dt;
  v.t1 -= dt;
  v.r0 -= dr;
  v.r1 -= dr;
  keepInSight();
}

// keepInSight keeps the middle of the picture inside the run.
function keepInSight() {
  const v = shown.view;
  const back = (low, high, least, most) => {
    const middle = (low + high) / 2;
    return Math.max(least, Math.min(middle, most)) - middle;
  };
  const dt = back(v.t0, v.t1, 0, Math.max(run.end, 1));
  const dr = back(v.r0, v.r1, 0, size - 1);
  v.t0 += dt;
  v.t1 += dt;
  v.r0 += dr;
  v.r1 += dr;
  redraw();
}

function zoomMiddle(factor) {
  zoom(factor, margin.left + plot.width / 2, margin.top + plot.height / 2);
}

function fit() {
  shown.view = wholeView();
  redraw();
}

// choose makes the messages of one process stand out; never: all alike.
function choose(rank) {
  shown.chosen = rank === shown.chosen ? never : rank;
  showChosen();
  if (shown.chosen !== never && !shown.tree) {
    const v = shown.view;
    if (rank < v.r0 || rank > v.r1) {
      move(0, y((v.r0 + v.r1) / 2) - y(rank));
    }
  }
  redraw();
}

// chooseNext goes on from the chosen process.
function chooseNext(by) {
  const from = shown.chosen === never ? (by > 0 ? -1 : size) : shown.chosen;
  const next = Math.max(0, Math.min(from + by, size - 1));
  if (next !== shown.chosen) {
    choose(next);
  }
}

// make builds an element with a text.
function make(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

function showChosen() {
  const box = element("chosen");
  box.replaceChildren();
  if (shown.chosen === never) {
    return;
  }
  const process = run.processes[shown.chosen];
  make("h2", `Process ${shown.chosen}`, box);
  make("p", describeProcess(shown.chosen).join("; "), box);
  if (process.messages.length === 0) {
    return;
  }
  const table = make("table", "", box);
  const head = make("tr", "", make("thead", "", table));
  ["sent", "", "over", "kind"].forEach((name) => make("th", name, head));
  const body = make("tbody", "", table);
  for (const i of process.messages) {
    const message = run.messages[i];
    const row = make("tr", "", body);
    row.title = describeMessage(message);
    row.className = message.outcome || "taken";
    const out = message.from === shown.chosen;
    const kind = message.kind === "spread" ? "dissemination" : message.kind;
    make("td", message.sent, row);
    make("td", out ? `→ ${message.to}` : `← ${message.from}`, row);
    make("td", message.outcome === "lost" ? `${message.ended} ✕` : message.ended, row);
    make("td", kind + (message.names ? ` (${message.names.join(", ")})` : "") + (!out && colors(message) ? " ●" : ""), row);
    row.addEventListener("mouseenter", () => hover(message));
    row.addEventListener("mouseleave", () => hover(null));
  }
}

function hover(message) {
  if (shown.hover !== message) {
    shown.hover = message;
    redraw();
  }
}

// point shows what is under the pointer.
function point(px, py) {
  let text = "";
  if (shown.tree) {
    const rank = nodeAt(px, py);
    text = rank === never ? "" : [`process ${rank}`, ...describeProcess(rank)].join("\n");
  } else {
    const message = px > margin.left ? messageAt(px, py) : null;
    const rank = processAt(py);
    hover(message);
    if (message !== null) {
      text = describeMessage(message);
    } else if (rank !== never && Math.abs(y(rank) - py) < 8) {
      text = [`process ${rank}`, ...describeProcess(rank)].join("\n");
    }
  }
  const tip = element("tip");
  tip.hidden = text === "";
  tip.textContent = text;
  tip.style.left = `${Math.min(px + 14, area.width - tip.offsetWidth - 6)}px`;
  tip.style.top = `${Math.min(py + 16, area.height - tip.offsetHeight - 6)}px`;
}

function leave() {
  element("tip").hidden = true;
  hover(null);
}

function showTree(tree) {
  shown.tree = tree;
  element("view-time").setAttribute("aria-pressed", String(!tree));
  element("view-tree").setAttribute("aria-pressed", String(tree));
  element("zoom").hidden = tree;
  leave();
  redraw();
}

// What keys do, wherever the focus is; Shift with arrows moves the picture.
const keys = {
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  ArrowUp: () => chooseNext(-1),
  ArrowDown: () => chooseNext(1),
  Home: () => step(-run.end),
  End: () => step(run.end + 1),
  Escape: () => choose(shown.chosen),
  " ": () => (playing ? pause() : play()),
  "+": () => zoomMiddle(1.4),
  "=": () => zoomMiddle(1.4),
  "-": () => zoomMiddle(1 / 1.4),
  0: fit,
};

const shiftKeys = {
  ArrowLeft: () => move(60, 0),
  ArrowRight: () => move(-60, 0),
  ArrowUp: () => move(0, 60),
  ArrowDown: () => move(0, -60),
};

function listenToKeys() {
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) {
      return;
    }
    const pressed = e.target.closest?.("button, summary") && (e.key === " " || e.key === "Enter");
    const does = (e.shiftKey && shiftKeys[e.key]) || keys[e.key];
    if (does && !pressed) {
      e.preventDefault();
      does();
    }
  });
}

function listenToPointer() {
  let from = null; // where a drag began
  let dragged = false;
  canvas.addEventListener("pointerdown", (e) => {
    from = { x: e.offsetX, y: e.offsetY };
    dragged = false;
    canvas.setPointerCapture?.(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (from === null) {
      point(e.offsetX, e.offsetY);
      return;
    }
    const dx = e.offsetX - from.x;
    const dy = e.offsetY - from.y;
    if (!shown.tree && (dragged || Math.hypot(dx, dy) > 4)) {
      dragged = true;
      canvas.classList.add("grabbing");
      leave();
      move(dx, dy);
      from = { x: e.offsetX, y: e.offsetY };
    }
  });
  canvas.addEventListener("pointerup", (e) => {
    canvas.classList.remove("grabbing");
    if (from !== null && !dragged) {
      choose(shown.tree ? nodeAt(e.offsetX, e.offsetY) : processAt(e.offsetY));
    }
    from = null;
  });
  canvas.addEventListener("pointercancel", () => {
    from = null;
    canvas.classList.remove("grabbing");
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener(
    "wheel",
    (e) => {
      e.preventDefault();
      if (!shown.tree) {
        zoom(Math.exp(-(e.deltaY || e.deltaX) / 500), e.offsetX, e.offsetY, !e.altKey, !e.shiftKey);
      }
    },
    { passive: false },
  );
}

function listenToButtons() {
  const click = (id, does) => element(id).addEventListener("click", does);
  click("back", () => step(-1));
  click("forward", () => step(1));
  click("play", () => (playing ? pause() : play()));
  click("zoom-in", () => zoomMiddle(1.4));
  click("zoom-out", () => zoomMiddle(1 / 1.4));
  click("zoom-fit", fit);
  click("view-time", () => showTree(false));
  click("view-tree", () => showTree(true));
  click("copy", copyCommand);
  slider.addEventListener("input", () => {
    pause();
    goTo(Number(slider.value));
  });
}

// copyCommand copies, or where that is forbidden selects what to copy.
async function copyCommand() {
  try {
    await navigator.clipboard.writeText(run.command);
    element("copy").textContent = "Copied";
    setTimeout(() => (element("copy").textContent = "Copy"), 1500);
  } catch {
    getSelection().selectAllChildren(element("command"));
  }
}

// The legend shows what occurs in this run, drawn by what draws the diagram.
function fillLegend() {
  const has = (test) => run.messages.some(test);
  for (const family of families) {
    if (has((m) => m.family === family.key)) {
      legendLine(family.name, (pen) => sampleMessage(pen, family.key, false));
    }
  }
  if (has((m) => m.outcome === "lost")) {
    const family = run.messages.find((m) => m.outcome === "lost").family;
    legendLine("message to a dead process", (pen) => sampleMessage(pen, family, true));
  }
  legendLine("sending (o), receiving (o)", sampleBars);
  legendLine("colored by dissemination", () => markColoring(19, 9, 5, "dissemination"));
  if (run.processes.some((p) => p.by === "correction")) {
    legendLine("colored by correction", () => markColoring(19, 9, 5, "correction"));
  }
  legendLine("delivered", () => markDelivery(19, 9, 3, ""));
  if (run.processes.some((p) => p.died !== never)) {
    legendLine("dead", sampleDeath);
  }
  if (gaps.length > 0) {
    legendLine("gap: missed by dissemination", samplePatch);
  }
}

// legendLine draws with the same functions, on a small canvas of its own.
function legendLine(text, sample) {
  const line = make("li", "", element("legend"));
  const small = document.createElement("canvas");
  small.setAttribute("aria-hidden", "true");
  const ratio = Math.max(2, window.devicePixelRatio || 1);
  small.width = 38 * ratio;
  small.height = 18 * ratio;
  line.append(small);
  make("span", text, line);
  legend.push({ pen: small.getContext("2d"), ratio, sample });
}

const legend = [];

function drawLegend() {
  for (const { pen, ratio, sample } of legend) {
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, 38, 18);
    paintOn(pen, sample);
  }
}

function sampleMessage(pen, family, lost) {
  pen.strokeStyle = ink[family];
  pen.lineWidth = 1.6;
  pen.setLineDash(lost ? [5, 3] : []);
  pen.beginPath();
  pen.moveTo(4, 3);
  pen.lineTo(32, 14);
  pen.stroke();
  pen.setLineDash([]);
  if (lost) {
    pen.beginPath();
    cross(32, 14, 3);
    pen.stroke();
  }
}

function sampleBars(pen) {
  pen.fillStyle = pen.strokeStyle = ink.faint;
  pen.fillRect(2, 6, 15, 6);
  pen.strokeRect(21.5, 6.5, 14, 5);
}

function sampleDeath(pen) {
  pen.strokeStyle = ink.dead;
  pen.setLineDash([2, 4]);
  pen.beginPath();
  pen.moveTo(10, 9);
  pen.lineTo(38, 9);
  pen.stroke();
  pen.setLineDash([]);
  markDeath(9, 9, 4.5);
}

function samplePatch(pen) {
  pen.globalAlpha = Math.min(1, Number(ink["gap-alpha"]) * 1.5);
  pen.fillStyle = ink.gap;
  pen.fillRect(3, 2, 32, 14);
  pen.globalAlpha = 1;
}

function fillHeader() {
  element("note").textContent = run.note || "";
  for (const figure of run.figures) {
    const pair = make("div", "", element("figures"));
    make("dt", figure.name, pair);
    make("dd", figure.value, pair);
  }
  element("command").textContent = run.command;
  canvas.setAttribute("aria-label", `Diagram of processes 0 to ${size - 1} over ${plural(run.end, "step")}: ${run.title}`);
  slider.max = String(run.end);
}

function begin() {
  readInk();
  fillHeader();
  fillLegend();
  drawLegend();
  shown.view = wholeView();
  listenToKeys();
  listenToPointer();
  listenToButtons();
  new ResizeObserver(resize).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readInk();
    drawLegend();
    redraw();
  });
  resize();
  goTo(run.end);
}

begin();
