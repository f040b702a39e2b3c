// The space–time diagram: processes from top to bottom, time from left to right.

const canvas = document.getElementById("canvas");
let paper = canvas.getContext("2d");

// paintOn makes the functions below draw on another canvas for once.
function paintOn(pen, paint) {
  const before = paper;
  paper = pen;
  paint(pen);
  paper = before;
}

// What the page shows at present.
const shown = {
  now: run.end, // what happens later is not drawn
  chosen: never, // rank whose messages alone stand out
  hover: null, // message under the pointer
  view: null, // times and ranks at the edges
  tree: false, // the tree instead of the diagram
};

// Around the diagram: ranks to the left, marks above, times below.
const margin = { left: 52, top: 46, right: 14, bottom: 30 };
const area = { width: 0, height: 0 };

let ink = {};

// readInk takes the colours from the style sheet, which knows light and dark.
function readInk() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "panel", "ink", "faint", "rule", "grid", "spread", "ack", "correction", "sos", "dead", "gap", "gap-alpha"]) {
    ink[name] = style.getPropertyValue(`--${name}`).trim();
  }
  ink.origin = ink.dissemination = ink.spread;
  ink.uncolored = ink.rule;
}

const font = (pixels, weight = "") => `${weight} ${pixels}px system-ui, "DejaVu Sans", sans-serif`;

// The whole run, with some air.
function wholeView() {
  const span = Math.max(run.end, 1);
  return { t0: -span * 0.015, t1: Math.max(span * 1.02, horizon), r0: -0.8, r1: size - 0.2 };
}

const plot = {
  get width() { return Math.max(area.width - margin.left - margin.right, 1); },
  get height() { return Math.max(area.height - margin.top - margin.bottom, 1); },
};

function x(time) {
  const { t0, t1 } = shown.view;
  return margin.left + ((time - t0) / (t1 - t0)) * plot.width;
}

function y(rank) {
  const { r0, r1 } = shown.view;
  return margin.top + ((rank - r0) / (r1 - r0)) * plot.height;
}

function timeAt(px) {
  const { t0, t1 } = shown.view;
  return t0 + ((px - margin.left) / plot.width) * (t1 - t0);
}

function rankAt(py) {
  const { r0, r1 } = shown.view;
  return r0 + ((py - margin.top) / plot.height) * (r1 - r0);
}

// Sizes in pixels that follow from the zoom.
function scale() {
  const row = plot.height / (shown.view.r1 - shown.view.r0);
  const step = plot.width / (shown.view.t1 - shown.view.t0);
  const bar = row < 5 ? 0 : Math.min(row * 0.17, 7);
  return {
    row,
    step,
    bar, // height of the bars of overhead; 0: none
    lane: bar / 2 + (bar > 2 ? 0.75 : 0), // sending above the line, receiving below
    mark: Math.max(1.3, Math.min(row * 0.3, step * 0.4, 6)),
    line: row < 4 ? 0.6 : row < 10 ? 0.9 : 1.4,
  };
}

function drawDiagram() {
  const s = scale();
  paper.save();
  paper.beginPath();
  paper.rect(margin.left, margin.top, plot.width, plot.height);
  paper.clip();
  drawGrid(s);
  drawGaps(s);
  drawLifelines(s);
  const drawn = drawMessages(s);
  drawMarks(s);
  paper.restore();
  drawMoments();
  drawRanks(s);
  drawTimes(s);
  return drawn;
}

// niceStep is the least of 1, 2, 5, 10, … that is at least n.
function niceStep(n) {
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) {
      if (digit * power >= n) {
        return digit * power;
      }
    }
  }
}

function drawGrid(s) {
  const step = niceStep(22 / s.step);
  paper.strokeStyle = ink.grid;
  paper.lineWidth = 1;
  paper.beginPath();
  for (let t = Math.max(0, Math.ceil(shown.view.t0 / step) * step); t <= shown.view.t1; t += step) {
    paper.moveTo(x(t), margin.top);
    paper.lineTo(x(t), margin.top + plot.height);
  }
  paper.stroke();
}

// drawGaps shades each process that dissemination did not reach until
// correction reaches it.
function drawGaps(s) {
  if (shown.now < gapsFrom) {
    return;
  }
  paper.fillStyle = ink.gap;
  paper.globalAlpha = Math.min(1, Number(ink["gap-alpha"]) * (s.row < 4 ? 2.5 : 1));
  paper.beginPath();
  for (const gap of gaps) {
    for (let r = gap.first; r <= gap.last; r++) {
      const process = run.processes[r];
      const now = shown.now < run.end ? shown.now : horizon;
      const to = Math.min(process.colored === never ? horizon : process.colored, now);
      if (to > gapsFrom) {
        const height = Math.max(s.row, 1.6);
        paper.rect(x(gapsFrom), y(r) - height / 2, x(to) - x(gapsFrom), height);
      }
    }
  }
  paper.fill();
  paper.globalAlpha = 1;
}

// visibleRanks are the first and the last that may be seen.
function visibleRanks() {
  return [Math.max(0, Math.floor(shown.view.r0)), Math.min(size - 1, Math.ceil(shown.view.r1))];
}

// drawLifelines draws each process as a line: thin until it is colored, then in
// the colour of what colored it, dashed once it is dead.
function drawLifelines(s) {
  const [first, last] = visibleRanks();
  const end = Math.max(run.end, 1);
  for (let r = first; r <= last; r++) {
    const process = run.processes[r];
    const dim = (shown.chosen !== never && shown.chosen !== r ? 0.5 : 1) * (s.row < 4 ? 0.4 : 1);
    const died = deadAt(process, shown.now) ? process.died : Infinity;
    const colored = process.colored === never ? Infinity : process.colored;
    segment(r, 0, Math.min(end, colored, died, shown.now), ink.rule, 1, dim);
    segment(r, colored, Math.min(end, died, shown.now), ink[process.by], s.row < 5 ? 0.8 : 2, 0.5 * dim);
    segment(r, Math.min(end, shown.now), end, ink.grid, 1, 1);
    if (died !== Infinity) {
      paper.setLineDash([2, 4]);
      segment(r, died, end, ink.dead, s.row < 4 ? 0.8 : 1.1, 0.75);
      paper.setLineDash([]);
    }
  }
}

function segment(rank, from, to, colour, width, alpha) {
  if (!(to > from)) {
    return;
  }
  paper.strokeStyle = colour;
  paper.lineWidth = width;
  paper.globalAlpha = alpha;
  paper.beginPath();
  paper.moveTo(x(from), y(rank));
  paper.lineTo(x(to), y(rank));
  paper.stroke();
  paper.globalAlpha = 1;
}

// concerns reports whether a message stands out.
function concerns(message) {
  return shown.chosen === never || message.from === shown.chosen || message.to === shown.chosen;
}

// inView reports whether some of a message may be seen.
function inView(message) {
  const { t0, t1, r0, r1 } = shown.view;
  if (message.ended < t0 || message.sent > t1) {
    return false;
  }
  const low = Math.min(message.from, message.to);
  const high = Math.max(message.from, message.to);
  return message.wraps || (high >= r0 - 1 && low <= r1 + 1);
}

// drawMessages draws all that were sent before now, those that look alike in one
// stroke, and returns their number.
function drawMessages(s) {
  const batches = new Map();
  let drawn = 0;
  for (const message of run.messages) {
    if (message.sent >= shown.now && shown.now < run.end) {
      break; // the rest was sent later
    }
    drawn++;
    if (!inView(message)) {
      continue;
    }
    const key = `${concerns(message) ? 1 : 0}${message.family}/${message.outcome || "taken"}`;
    if (!batches.has(key)) {
      batches.set(key, []);
    }
    batches.get(key).push(message);
  }
  // What stands out, and correction, comes on top.
  for (const key of [...batches.keys()].sort(byWeight)) {
    drawBatch(batches.get(key), s, key[0] === "1");
  }
  if (shown.hover !== null && shown.hover.sent < shown.now) {
    drawBatch([shown.hover], { ...s, line: s.line + 1.6, bar: Math.max(s.bar, 3) }, true);
  }
  return drawn;
}

function byWeight(a, b) {
  const weight = (key) => (key[0] === "1" ? 10 : 0) + families.findIndex((f) => key.slice(1).startsWith(f.key));
  return weight(a) - weight(b);
}

function drawBatch(messages, s, strong) {
  const { family, outcome } = messages[0];
  const crowd = messages.length > 1500 && s.row < 6;
  const flightAlpha = (outcome === "ignored" ? 0.5 : 0.85) * (crowd ? 0.6 : 1);
  paper.strokeStyle = paper.fillStyle = ink[family];
  paper.globalAlpha = strong ? flightAlpha : 0.09;
  paper.lineWidth = s.line;
  paper.setLineDash(outcome === "lost" ? [5, 3] : []);
  paper.beginPath();
  messages.forEach((message) => traceFlight(message, s));
  paper.stroke();
  paper.setLineDash([]);
  if (s.bar > 0) {
    paper.globalAlpha = strong ? 1 : 0.12;
    drawOverheads(messages, s);
  }
  if (outcome === "lost") {
    paper.globalAlpha = strong ? 1 : 0.12;
    drawCrosses(messages, s);
  }
  paper.globalAlpha = 1;
}

// traceFlight adds the slanted line of a message, as far as it has come.
function traceFlight(message, s) {
  const { from, to } = message;
  const done = run.L > 0 ? Math.min((shown.now - message.flies) / run.L, 1) : shown.now >= message.flies ? 1 : 0;
  if (done <= 0) {
    return;
  }
  const lands = message.outcome === "lost" ? 0 : s.lane;
  if (!message.wraps) {
    flightPart(message, from, to, 0, done, -s.lane, lands);
  } else {
    // Out at one edge of the ring, in at the other.
    const turn = message.kind === "left" ? size : -size;
    const distance = Math.abs(from + turn - to);
    const out = message.kind === "left" ? from + 0.7 : size - 1 - from + 0.7;
    const inside = message.kind === "left" ? from + 0.3 : size - 1 - from + 0.3;
    flightPart(message, from, to - turn, 0, Math.min(done, out / distance), -s.lane, lands);
    flightPart(message, from + turn, to, inside / distance, done, -s.lane, lands);
  }
  if (message.takes > message.arrives && message.outcome !== "lost") {
    const to = Math.min(message.takes, shown.now);
    if (to > message.arrives) {
      paper.moveTo(x(message.arrives), y(message.to) + s.lane);
      paper.lineTo(x(to), y(message.to) + s.lane);
    }
  }
}

// flightPart adds the part between two fractions of the way from one rank to
// another. The lines leave the sending lane and land in the receiving one.
function flightPart(message, from, to, begin, end, leaves, lands) {
  if (end <= begin) {
    return;
  }
  const x0 = x(message.flies);
  const y0 = y(from) + leaves;
  const dx = x(message.arrives) - x0;
  const dy = y(to) + lands - y0;
  paper.moveTo(x0 + dx * begin, y0 + dy * begin);
  paper.lineTo(x0 + dx * end, y0 + dy * end);
}

// drawOverheads draws sending as full bars and receiving as open ones.
function drawOverheads(messages, s) {
  const open = s.bar >= 4;
  paper.beginPath();
  for (const message of messages) {
    const to = Math.min(message.flies, shown.now);
    if (to > message.sent) {
      paper.rect(x(message.sent) + 0.5, y(message.from) - s.lane - s.bar / 2, x(to) - x(message.sent) - 1, s.bar);
    }
  }
  paper.fill();
  if (messages[0].outcome === "lost") {
    return;
  }
  paper.beginPath();
  for (const message of messages) {
    const to = Math.min(message.ended, shown.now);
    if (to > message.takes) {
      const inset = open ? 1 : 0.5;
      paper.rect(x(message.takes) + inset, y(message.to) + s.lane - s.bar / 2 + (open ? 0.5 : 0), x(to) - x(message.takes) - 2 * inset, s.bar - (open ? 1 : 0));
    }
  }
  if (open) {
    const colour = paper.fillStyle;
    paper.fillStyle = ink.paper;
    paper.fill();
    paper.fillStyle = colour;
    paper.lineWidth = 1.2;
    paper.stroke();
    return;
  }
  paper.globalAlpha *= 0.5;
  paper.fill();
}

function cross(cx, cy, r) {
  paper.moveTo(cx - r, cy - r);
  paper.lineTo(cx + r, cy + r);
  paper.moveTo(cx - r, cy + r);
  paper.lineTo(cx + r, cy - r);
}

// drawCrosses ends the messages to the dead.
function drawCrosses(messages, s) {
  const r = Math.max(1.6, Math.min(s.mark * 0.75, 4.5));
  paper.lineWidth = r < 2.5 ? 1 : 1.8;
  paper.beginPath();
  for (const message of messages) {
    if (message.ended <= shown.now) {
      cross(x(message.ended), y(message.to), r);
    }
  }
  paper.stroke();
}

// drawMarks marks coloring, delivery and death.
function drawMarks(s) {
  const [first, last] = visibleRanks();
  for (let r = first; r <= last; r++) {
    const process = run.processes[r];
    paper.globalAlpha = shown.chosen === never || shown.chosen === r ? 1 : 0.3;
    if (stateAt(process, shown.now) !== "uncolored") {
      markColoring(x(process.colored), y(r), s.mark, process.by);
    }
    if (process.delivered !== never && process.delivered <= shown.now && s.mark > 2.6) {
      markDelivery(x(process.delivered), y(r), s.mark, process.by);
    }
    if (deadAt(process, shown.now)) {
      markDeath(x(process.died), y(r), s.mark);
    }
  }
  paper.globalAlpha = 1;
}

// markColoring draws a disc for dissemination, a diamond for correction, and a
// disc with a hole for the root.
function markColoring(cx, cy, r, by) {
  paper.fillStyle = ink[by];
  paper.strokeStyle = ink.paper;
  paper.lineWidth = 1;
  outline(cx, cy, r, by);
  paper.fill();
  if (r > 2.6) {
    paper.stroke();
  }
  if (by === "origin" && r > 2) {
    paper.fillStyle = ink.paper;
    paper.beginPath();
    paper.arc(cx, cy, r * 0.45, 0, 2 * Math.PI);
    paper.fill();
  }
}

// outline is a diamond for a process that correction colored, a disc for others.
function outline(cx, cy, r, by) {
  paper.beginPath();
  if (by !== "correction") {
    paper.arc(cx, cy, r, 0, 2 * Math.PI);
    return;
  }
  const d = r * 1.3;
  paper.moveTo(cx - d, cy);
  paper.lineTo(cx, cy - d);
  paper.lineTo(cx + d, cy);
  paper.lineTo(cx, cy + d);
  paper.closePath();
}

// markDelivery draws a ring.
function markDelivery(cx, cy, r, by) {
  paper.strokeStyle = ink[by] || ink.ink;
  paper.lineWidth = 1.2;
  paper.beginPath();
  paper.arc(cx, cy, r + 3, 0, 2 * Math.PI);
  paper.stroke();
}

function markDeath(cx, cy, r) {
  paper.strokeStyle = ink.dead;
  paper.lineWidth = r < 2.5 ? 1.4 : 2.4;
  paper.beginPath();
  cross(cx, cy, Math.max(r, 2));
  paper.stroke();
}

// The moments that have a line and a name.
const moments = [
  { at: run.start, name: "correction starts", colour: "correction" },
  { at: run.color, name: "last colored", colour: "ink" },
  { at: run.end, name: "quiescent", colour: "faint" },
].filter((moment) => moment.at !== never);

// drawMoments draws lines across, with names above that keep out of each other's
// way, and the present moment.
function drawMoments() {
  const ends = [-Infinity, -Infinity, -Infinity];
  paper.font = font(12);
  paper.textBaseline = "middle";
  for (const moment of moments) {
    const px = x(moment.at);
    if (px < margin.left || px > margin.left + plot.width + 1) {
      continue;
    }
    const text = `${moment.name} ${moment.at}`;
    const width = paper.measureText(text).width;
    const left = Math.max(margin.left, Math.min(px - width / 2, margin.left + plot.width - width));
    const row = ends.findIndex((end) => end + 8 < left);
    ends[row] = left + width;
    const top = margin.top - 12 - row * 14;
    paper.strokeStyle = paper.fillStyle = ink[moment.colour];
    paper.lineWidth = 1.2;
    paper.setLineDash([6, 4]);
    paper.beginPath();
    paper.moveTo(px, top + 8);
    paper.lineTo(px, margin.top + plot.height);
    paper.stroke();
    paper.setLineDash([]);
    paper.fillText(text, left, top);
  }
  const px = x(shown.now);
  if (shown.now < run.end && px >= margin.left && px <= margin.left + plot.width) {
    paper.strokeStyle = ink.ink;
    paper.lineWidth = 1.5;
    paper.beginPath();
    paper.moveTo(px, margin.top - 4);
    paper.lineTo(px, margin.top + plot.height);
    paper.stroke();
  }
}

// drawRanks writes the ranks to the left, the dead with a cross, and beside them
// a bar for every gap.
function drawRanks(s) {
  const labels = rankLabels(s);
  paper.save();
  paper.beginPath();
  paper.rect(0, margin.top - 6, margin.left, plot.height + 12);
  paper.clip();
  paper.textAlign = "right";
  paper.textBaseline = "middle";
  for (const { rank, special } of labels) {
    if (rank === shown.chosen) {
      paper.fillStyle = ink.gap;
      paper.globalAlpha = Number(ink["gap-alpha"]);
      paper.fillRect(0, y(rank) - 8, margin.left, 16);
      paper.globalAlpha = 1;
    }
    paper.fillStyle = special ? ink.ink : ink.faint;
    paper.font = font(s.row < 12 ? 11 : 12, special ? "bold" : "");
    paper.fillText(String(rank), margin.left - 14, y(rank));
  }
  drawDeadCrosses(s);
  if (shown.now >= gapsFrom) {
    drawGapBars();
  }
  paper.restore();
}

// drawDeadCrosses puts a cross before the rank of every dead process.
function drawDeadCrosses(s) {
  const [first, last] = visibleRanks();
  paper.strokeStyle = ink.dead;
  paper.lineWidth = 1.6;
  paper.beginPath();
  for (let r = first; r <= last; r++) {
    if (deadAt(run.processes[r], shown.now)) {
      cross(9, y(r), Math.min(Math.max(s.row * 0.3, 2.5), 4));
    }
  }
  paper.stroke();
}

// rankLabels are the ranks there is room for: the chosen one, the dead and the
// root before others.
function rankLabels(s) {
  const [first, last] = visibleRanks();
  const labels = [];
  const room = 11 / s.row;
  const every = s.row >= 11 ? 1 : niceStep(13 / s.row);
  const add = (rank, special) => {
    if (labels.every((label) => Math.abs(label.rank - rank) >= room)) {
      labels.push({ rank, special });
    }
  };
  if (shown.chosen !== never) {
    add(shown.chosen, true);
  }
  for (let r = first; r <= last; r++) {
    if (deadAt(run.processes[r], shown.now)) {
      add(r, true);
    }
  }
  add(run.root, true);
  for (let r = Math.ceil(first / every) * every; r <= last; r += every) {
    add(r, false);
  }
  return labels;
}

function drawGapBars() {
  paper.fillStyle = ink.gap;
  paper.strokeStyle = ink.faint;
  paper.lineWidth = 0.5;
  for (const gap of gaps) {
    const top = y(gap.first - 0.45);
    paper.fillRect(margin.left - 9, top, 5, y(gap.last + 0.45) - top);
    paper.strokeRect(margin.left - 9, top, 5, y(gap.last + 0.45) - top);
  }
}

function drawTimes(s) {
  const step = niceStep(34 / s.step);
  const base = margin.top + plot.height;
  paper.fillStyle = ink.faint;
  paper.strokeStyle = ink.rule;
  paper.lineWidth = 1;
  paper.font = font(12);
  paper.textAlign = "center";
  paper.textBaseline = "top";
  paper.beginPath();
  paper.moveTo(margin.left, base + 0.5);
  paper.lineTo(margin.left + plot.width, base + 0.5);
  for (let t = Math.max(0, Math.ceil(shown.view.t0 / step) * step); t <= shown.view.t1; t += step) {
    paper.moveTo(x(t), base);
    paper.lineTo(x(t), base + 4);
    paper.fillText(String(t), x(t), base + 7);
  }
  paper.stroke();
  paper.textAlign = "left";
  paper.fillText("time", 8, base + 7);
  paper.textBaseline = "alphabetic";
  paper.fillText("process", 4, margin.top - 12);
}

// distanceTo is how far a point is from the line between two others.
function distanceTo(px, py, x0, y0, x1, y1) {
  const dx = x1 - x0;
  const dy = y1 - y0;
  const length = dx * dx + dy * dy;
  const f = length === 0 ? 0 : Math.max(0, Math.min(1, ((px - x0) * dx + (py - y0) * dy) / length));
  return Math.hypot(px - x0 - f * dx, py - y0 - f * dy);
}

// messageAt finds the message under the pointer.
function messageAt(px, py) {
  const s = scale();
  let best = null;
  let least = 6;
  for (const message of run.messages) {
    if (message.sent >= shown.now || !inView(message) || !concerns(message)) {
      continue;
    }
    const d = distanceToMessage(message, px, py, s);
    if (d < least) {
      least = d;
      best = message;
    }
  }
  return best;
}

function distanceToMessage(message, px, py, s) {
  const sendY = y(message.from) - s.lane;
  const takeY = y(message.to) + s.lane;
  const x0 = x(message.flies);
  const x1 = x(message.arrives);
  const parts = [distanceTo(px, py, x(message.sent), sendY, x0, sendY)];
  if (message.outcome !== "lost") {
    parts.push(distanceTo(px, py, x1, takeY, x(message.ended), takeY));
  }
  if (message.wraps) {
    const turn = message.kind === "left" ? size : -size;
    parts.push(distanceTo(px, py, x0, sendY, x1, y(message.to - turn)), distanceTo(px, py, x0, y(message.from + turn), x1, takeY));
  } else {
    parts.push(distanceTo(px, py, x0, sendY, x1, takeY));
  }
  return Math.min(...parts);
}

// processAt finds the process whose row is under the pointer, or never.
function processAt(py) {
  const r = Math.round(rankAt(py));
  return r >= 0 && r < size && py >= margin.top ? r : never;
}
