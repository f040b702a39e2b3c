"use strict";

// What went wrong is kept on the page, where a reader or a test can find it.
window.addEventListener("error", (e) => {
  document.documentElement.dataset.error = e.message;
});

// The run, as package trace writes it.
const run = JSON.parse(document.getElementById("trace").textContent);
const size = run.processes.length;
const never = -1;

// The kinds of messages that look different, in the order of the legend.
const families = [
  { key: "spread", name: "dissemination" },
  { key: "ack", name: "acknowledgement" },
  { key: "correction", name: "correction" },
  { key: "sos", name: "SOS" },
];

function familyOf(message) {
  if (message.kind === "ack" || message.kind === "sos") {
    return message.kind;
  }
  return message.correction ? "correction" : "spread";
}

// Each process keeps the indices of its messages.
for (const process of run.processes) {
  process.messages = [];
}

run.messages.forEach((message, i) => {
  message.family = familyOf(message);
  message.flies = message.sent + run.o;
  message.arrives = message.flies + run.L;
  message.takes = message.outcome === "lost" ? message.ended : message.ended - run.o;
  // On a closed ring a correction message may go around past rank 0.
  message.wraps =
    (message.kind === "left" && message.to > message.from) ||
    (message.kind === "right" && message.to < message.from);
  run.processes[message.from].messages.push(i);
  if (message.to !== message.from) {
    run.processes[message.to].messages.push(i);
  }
});

// colors reports whether a message is the one that colored its receiver.
function colors(message) {
  const process = run.processes[message.to];
  return message.outcome !== "lost" && process.from === message.from && process.colored === message.ended;
}

// gapsFrom is when the gaps are looked at: when correction starts, or without
// correction when dissemination has colored all it will. They are shown until
// horizon, which leaves room for them where the run ends with dissemination.
const gapsFrom = run.start !== never ? run.start : run.color;
const horizon = run.start !== never ? run.end : Math.max(run.end, 1) * 1.04;

// inGap reports whether dissemination left a process out. The dead count.
function inGap(process) {
  return process.by !== "origin" && process.by !== "dissemination";
}

// gaps are the runs of ranks that dissemination did not reach. One that goes
// around past rank 0 is listed as its two parts, both with the size of the whole.
const gaps = findGaps();

function findGaps() {
  const found = [];
  for (let r = 0; r < size; r++) {
    if (!inGap(run.processes[r])) {
      continue;
    }
    const first = r;
    while (r + 1 < size && inGap(run.processes[r + 1])) {
      r++;
    }
    found.push({ first, last: r, size: r - first + 1 });
  }
  const head = found[0];
  const tail = found[found.length - 1];
  if (found.length > 1 && head.first === 0 && tail.last === size - 1) {
    head.size = tail.size = head.size + tail.size;
  }
  for (const gap of found) {
    for (let r = gap.first; r <= gap.last; r++) {
      run.processes[r].gap = gap.size;
    }
  }
  return found;
}

// deadAt reports whether a process is dead at a moment.
function deadAt(process, now) {
  return process.died !== never && process.died <= now;
}

// stateAt is how a process stands at a moment.
function stateAt(process, now) {
  if (process.colored !== never && process.colored <= now) {
    return process.by;
  }
  return "uncolored";
}

// plural writes a number with its noun.
function plural(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

// tell says in a line what happens at a moment.
function tell(now) {
  let sends = 0;
  let receives = 0;
  for (const message of run.messages) {
    sends += message.sent === now;
    receives += message.ended === now && message.outcome !== "lost";
  }
  let colored = 0;
  let fresh = 0;
  let live = 0;
  for (const process of run.processes) {
    const alive = !deadAt(process, now);
    live += alive;
    if (alive && stateAt(process, now) !== "uncolored") {
      colored++;
      fresh += process.colored === now;
    }
  }
  const parts = [`${colored} of ${live} live colored`];
  if (fresh > 0) {
    parts.push(`${fresh} now`);
  }
  parts.push(plural(sends, "send"), plural(receives, "receive"));
  return `t = ${now}: ${parts.join(", ")}`;
}

// describeMessage says all about a message.
function describeMessage(message) {
  const what = message.family === "spread" ? "dissemination" : message.family;
  const direction = message.kind === "left" || message.kind === "right" ? `, to the ${message.kind}` : "";
  const lines = [
    `${message.from} → ${message.to}: ${what === "sos" ? "SOS" : what}${direction}`,
    `send ${message.sent}–${message.flies}, flight ${message.flies}–${message.arrives}`,
  ];
  if (message.detail) {
    lines.push(message.detail);
  }
  if (message.names) {
    lines.push(`names correctors ${message.names.join(", ")}`);
  }
  if (message.outcome === "lost") {
    lines.push(`lost at ${message.ended}: ${message.to} is dead`);
    return lines.join("\n");
  }
  if (message.takes > message.arrives) {
    lines.push(`waits ${message.arrives}–${message.takes}`);
  }
  lines.push(`receive ${message.takes}–${message.ended}`);
  if (message.outcome === "ignored") {
    lines.push(`ignored: ${message.to} has finished`);
  } else if (colors(message)) {
    lines.push(`colors ${message.to}`);
  }
  return lines.join("\n");
}

// describeProcess says what happens to a process, a phrase each.
function describeProcess(rank) {
  const process = run.processes[rank];
  const lines = [];
  if (process.died === 0) {
    lines.push("dead from the start");
  } else if (process.died !== never) {
    lines.push(`dies at ${process.died}`);
  }
  if (process.by === "origin") {
    lines.push("root: has the message");
  } else if (process.colored !== never) {
    lines.push(`colored at ${process.colored} by ${process.by} from ${process.from}`);
  } else if (process.died === never) {
    lines.push("never colored");
  }
  if (process.delivered !== never) {
    lines.push(`delivers at ${process.delivered}`);
  }
  if (process.gap) {
    lines.push(`in a gap of ${process.gap}`);
  }
  return lines;
}
