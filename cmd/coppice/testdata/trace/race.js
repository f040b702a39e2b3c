// Compares the time to draw everything with the time to stroke as many bare
// lines one by one, which no drawing of them can do without. Both are measured
// in turn, and the best of each counts: other work on the machine only adds.

const best = (old, began) => Math.min(old, performance.now() - began);
const settle = () => paper.getImageData(0, 0, 1, 1);
let whole = Infinity;
let bare = Infinity;
for (let round = 0; round < 20; round++) {
  settle();
  let began = performance.now();
  draw();
  settle();
  whole = best(whole, began);
  began = performance.now();
  for (const message of run.messages) {
    paper.beginPath();
    paper.moveTo(x(message.flies), y(message.from));
    paper.lineTo(x(message.arrives), y(message.to));
    paper.stroke();
  }
  settle();
  bare = best(bare, began);
}
make("pre", JSON.stringify({ whole, bare, drawn: Number(canvas.dataset.drawn), recorded: document.documentElement.dataset.error || "" }), document.body).id = "seen";
