// The tree of dissemination, or after gossip the tree of who colored whom.

const nodes = layOutTree();

// layOutTree gives each process a place: across by the order of the leaves, down
// by depth, both from 0 to 1. Processes without a parent stand beside the root.
function layOutTree() {
  const children = run.processes.map(() => []);
  const tops = [run.root];
  run.processes.forEach((process, r) => {
    if (process.parent !== never) {
      children[process.parent].push(r);
    } else if (r !== run.root) {
      tops.push(r);
    }
  });
  const places = run.processes.map(() => ({ across: 0, depth: 0 }));
  let leaves = 0;
  let deepest = 0;
  const place = (r, depth) => {
    deepest = Math.max(deepest, depth);
    places[r].depth = depth;
    if (children[r].length === 0) {
      places[r].across = leaves++;
      return;
    }
    children[r].forEach((child) => place(child, depth + 1));
    const last = children[r][children[r].length - 1];
    places[r].across = (places[children[r][0]].across + places[last].across) / 2;
  };
  tops.forEach((r) => place(r, 0));
  return { places, leaves, deepest };
}

// nodeX and nodeY are where a process stands on the canvas.
function nodeX(r) {
  return 30 + ((nodes.places[r].across + 0.5) / nodes.leaves) * (area.width - 60);
}

function nodeY(r) {
  return 50 + (nodes.places[r].depth / Math.max(nodes.deepest, 1)) * (area.height - 120);
}

function nodeSize() {
  const room = (area.width - 60) / nodes.leaves;
  return Math.max(1.6, Math.min(room * 0.42, 13));
}

// brought is the message from its parent to a process, if there is one.
const brought = run.processes.map((process, r) =>
  process.messages.map((i) => run.messages[i]).find((m) => m.from === process.parent && m.to === r && (!run.tree || m.kind === "spread")),
);

function drawTree() {
  const r = nodeSize();
  paper.font = font(12);
  paper.fillStyle = ink.faint;
  paper.textBaseline = "top";
  paper.fillText(run.tree ? "the tree of dissemination; thin and dashed: no message went there" : "who colored whom", 12, 12);
  drawEdges(r);
  run.processes.forEach((process, rank) => drawNode(rank, process, r));
  return run.messages.filter((m) => m.sent < shown.now).length;
}

function drawEdges(r) {
  run.processes.forEach((process, rank) => {
    if (process.parent === never) {
      return;
    }
    const message = brought[rank];
    const sent = message !== undefined && message.sent < shown.now;
    paper.strokeStyle = sent ? ink[message.family] : ink.faint;
    paper.lineWidth = sent ? (r < 4 ? 1 : 1.8) : 0.8;
    paper.globalAlpha = sent ? 0.8 : 0.6;
    paper.setLineDash(sent ? [] : [2, 3]);
    paper.beginPath();
    paper.moveTo(nodeX(process.parent), nodeY(process.parent));
    paper.lineTo(nodeX(rank), nodeY(rank));
    paper.stroke();
  });
  paper.setLineDash([]);
  paper.globalAlpha = 1;
}

// drawNode draws a process in the colour of what colored it, yellow if
// dissemination has left it out; a cross marks the dead.
function drawNode(rank, process, r) {
  const cx = nodeX(rank);
  const cy = nodeY(rank);
  const state = stateAt(process, shown.now);
  const left = inGap(process) && shown.now >= gapsFrom;
  if (rank === shown.chosen) {
    paper.strokeStyle = ink.ink;
    paper.lineWidth = 2;
    paper.beginPath();
    paper.arc(cx, cy, r + 4, 0, 2 * Math.PI);
    paper.stroke();
  }
  outline(cx, cy, r, state);
  paper.fillStyle = ink.paper;
  paper.fill();
  if (state !== "uncolored") {
    paper.fillStyle = ink[state];
    paper.fill();
  } else if (left) {
    paper.globalAlpha = Math.min(1, Number(ink["gap-alpha"]) * 2.5);
    paper.fillStyle = ink.gap;
    paper.fill();
    paper.globalAlpha = 1;
  }
  paper.strokeStyle = state === "uncolored" ? ink.faint : ink[state];
  paper.lineWidth = 1;
  paper.stroke();
  const dead = deadAt(process, shown.now);
  if (r >= 8) {
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    paper.fillStyle = state === "uncolored" || dead ? ink.ink : ink.paper;
    paper.font = font(r < 11 ? 10 : 12, "bold");
    paper.fillText(String(rank), cx, dead ? cy - r - 9 : cy + 0.5);
    paper.textAlign = "left";
  }
  if (dead) {
    markDeath(cx, cy, r * 0.9);
  }
}

// nodeAt finds the process under the pointer, or never.
function nodeAt(px, py) {
  const reach = nodeSize() + 4;
  let best = never;
  let least = reach;
  for (let r = 0; r < size; r++) {
    const d = Math.hypot(px - nodeX(r), py - nodeY(r));
    if (d < least) {
      least = d;
      best = r;
    }
  }
  return best;
}
