// Uses a page as a reader would and writes what it saw into the page. The test
// puts it behind the page's own scripts and reads the page when all is over.

const seen = { errors: [], steps: [] };

addEventListener("error", (e) => seen.errors.push(e.message));
addEventListener("unhandledrejection", (e) => seen.errors.push(String(e.reason)));

// A pointer that a script makes up cannot be captured.
canvas.setPointerCapture = () => {};

const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const rest = (ms) => new Promise((done) => setTimeout(done, ms));

async function press(key, shiftKey = false) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }));
  await frame();
}

async function pointer(type, x, y) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  await frame();
}

async function wheel(deltaY, x, y, keys = {}) {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, ...keys }));
  await frame();
}

const drawn = () => Number(canvas.dataset.drawn);
const span = () => [shown.view.t1 - shown.view.t0, shown.view.r1 - shown.view.r0];

// paint counts the pixels that have a colour of the style sheet.
function paint(name) {
  const hex = ink[name];
  const want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const { data } = paper.getImageData(0, 0, canvas.width, canvas.height);
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    n += want.every((v, k) => Math.abs(data[i + k] - v) < 4);
  }
  return n;
}

async function stepThrough() {
  await press("Home");
  for (let t = 0; t <= run.end; t++) {
    seen.steps.push({ moment: element("moment").textContent, slider: Number(slider.value), drawn: drawn() });
    await press("ArrowRight");
  }
  await press("ArrowLeft");
  seen.afterBack = Number(slider.value);
  slider.value = "1";
  slider.dispatchEvent(new Event("input"));
  await frame();
  seen.afterSlider = drawn();
  await press("Home");
  await press(" ");
  seen.playLabel = element("play").getAttribute("aria-label");
  await rest(500);
  seen.playedTo = shown.now;
  await rest(run.end * 600 + 2000);
  seen.playedOut = shown.now;
  await press("End");
}

async function zoomAndMove() {
  const [t, r] = span();
  const ratio = () => span().map((now, i) => Number((now / [t, r][i]).toFixed(3)));
  const middle = [area.width / 2, area.height / 2];
  const corner = [margin.left + 50, margin.top + 30];
  const under = [timeAt(corner[0]), rankAt(corner[1])];
  await wheel(-250, ...corner);
  seen.zoomed = ratio();
  seen.slipped = Math.hypot(x(under[0]) - corner[0], y(under[1]) - corner[1]);
  await press("0");
  seen.fitted = ratio();
  await wheel(-250, ...middle, { shiftKey: true });
  seen.zoomedTime = ratio();
  element("zoom-fit").click();
  await wheel(-250, ...middle, { altKey: true });
  seen.zoomedRanks = ratio();
  element("zoom-fit").click();
  element("zoom-in").click();
  await press("-");
  seen.inAndOut = ratio();
  await press("0");
  const before = x(0);
  await pointer("pointerdown", ...middle);
  await pointer("pointermove", middle[0] - 40, middle[1]);
  await pointer("pointerup", middle[0] - 40, middle[1]);
  seen.dragged = Math.round(x(0) - before);
  await press("ArrowLeft", true);
  seen.moved = Math.round(x(0) - before);
  seen.chosenByDrag = shown.chosen;
  await press("0");
}

async function chooseAndHover() {
  await pointer("pointerdown", 20, y(1));
  await pointer("pointerup", 20, y(1));
  seen.chosen = element("chosen").textContent;
  seen.rows = document.querySelectorAll("#chosen tbody tr").length;
  seen.faded = paint("spread") + paint("correction");
  await press("Escape");
  seen.unchosen = element("chosen").textContent;
  seen.full = paint("spread") + paint("correction");
  await press("ArrowDown");
  await press("ArrowDown");
  await press("ArrowUp");
  seen.chosenByKey = shown.chosen;
  await press("Escape");
  const message = run.messages[0];
  if (message === undefined) {
    return;
  }
  await pointer("pointermove", (x(message.flies) + x(message.arrives)) / 2, (y(message.from) + y(message.to)) / 2);
  seen.tip = element("tip").hidden ? "" : element("tip").textContent;
  await pointer("pointerleave", 0, 0);
  seen.tipAfter = element("tip").hidden;
}

async function look() {
  seen.title = document.title;
  seen.figures = element("figures").textContent;
  seen.command = element("command").textContent;
  seen.drawn = drawn();
  seen.colours = Object.fromEntries(["spread", "correction", "dead", "paper"].map((name) => [name, paint(name)]));
  seen.legend = [...document.querySelectorAll("#legend li")].map((line) => line.textContent);
  seen.paper = ink.paper;
  seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  seen.nameless = [...document.querySelectorAll("button, input, canvas[tabindex]")]
    .filter((e) => !e.getAttribute("aria-label") && !e.textContent.trim())
    .map((e) => e.id);
  element("view-tree").click();
  await frame();
  seen.tree = { drawn: drawn(), spread: paint("spread") };
  element("view-time").click();
  await frame();
}

async function drive() {
  await frame();
  await look();
  await stepThrough();
  await zoomAndMove();
  await chooseAndHover();
}

drive()
  .catch((e) => seen.errors.push(e.stack))
  .finally(() => {
    seen.recorded = document.documentElement.dataset.error || "";
    make("pre", JSON.stringify(seen), document.body).id = "seen";
  });
