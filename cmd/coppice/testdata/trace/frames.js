// Without a window frames come when they like, or not at all: timers, which
// follow the test's virtual time, stand in for them.

window.requestAnimationFrame = (then) => setTimeout(() => then(performance.now()), 16);
window.cancelAnimationFrame = clearTimeout;
