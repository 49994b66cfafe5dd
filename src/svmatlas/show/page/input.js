// Mouse, fingers and keys: what is done to the page, as calls of what it can do.

import { SCALES } from "./plane.js";

export const CLOSER = 1.25; // one step of zoom

// Numbers between commas or spaces; "inf" is one.
export function numbersIn(text) {
  return text.split(/[,;\s]+/).filter(Boolean).map((part) => (/^(inf|∞)/i.test(part) ? Infinity : Number(part)));
}

function pointer(app, event) {
  const box = app.window.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function listen(app) {
  let drag = null;
  const fingers = new Map();
  const area = app.window;
  area.addEventListener("pointerdown", (event) => {
    area.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, pointer(app, event));
    drag = { at: pointer(app, event), moved: 0 };
  });
  area.addEventListener("pointermove", (event) => {
    const at = pointer(app, event);
    if (fingers.has(event.pointerId)) dragTo(app, fingers, event.pointerId, at, drag);
    else app.hover(...at);
  });
  const release = (event) => {
    fingers.delete(event.pointerId);
    if (drag && drag.moved < 4 && event.type === "pointerup") {
      app.hover(...pointer(app, event));
      app.pin();
    }
    drag = null;
  };
  area.addEventListener("pointerup", release);
  area.addEventListener("pointercancel", release);
  area.addEventListener("wheel", (event) => {
    event.preventDefault();
    app.zoom(CLOSER ** Math.max(-3, Math.min(3, event.deltaY / 60)), ...pointer(app, event));
  }, { passive: false }); // prettier-ignore
  app.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && app.goTo(app.search.value)) app.window.focus();
  });
  app.rowField.addEventListener("change", () => app.setRows(numbersIn(app.rowField.value)));
  app.root.addEventListener("keydown", (event) => key(app, event));
  app.hooks.keys?.addEventListener("keydown", (event) => event.target === app.hooks.keys && key(app, event));
  new ResizeObserver(() => app.resized()).observe(area);
}

function dragTo(app, fingers, id, at, drag) {
  const others = Array.from(fingers).filter(([other]) => other !== id);
  const before = fingers.get(id);
  fingers.set(id, at);
  if (others.length === 0) app.move(before[0] - at[0], at[1] - before[1]);
  else {
    const [ox, oy] = others[0][1];
    const spread = (point) => Math.hypot(point[0] - ox, point[1] - oy) || 1;
    app.zoom(spread(before) / spread(at), (at[0] + ox) / 2, (at[1] + oy) / 2);
  }
  if (drag) drag.moved += Math.hypot(at[0] - before[0], at[1] - before[1]);
}

function key(app, event) {
  if (event.key === "Escape") return app.toggleHelp(false);
  if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.key === "Enter" && event.target !== app.window && event.target !== app.hooks.keys) return undefined; // presses a button
  const action = keys(app, event.shiftKey)[event.key];
  if (!action) return undefined;
  event.preventDefault();
  return action();
}

function keys(app, shift) {
  const go = shift ? (dx, dy) => app.nudge(dx, dy) : (dx, dy) => app.move(40 * dx, 40 * dy);
  const { selection, frontier } = app.atlas;
  return {
    ArrowLeft: () => go(-1, 0), ArrowRight: () => go(1, 0), ArrowUp: () => go(0, 1), ArrowDown: () => go(0, -1),
    "+": () => app.zoom(1 / CLOSER), "=": () => app.zoom(1 / CLOSER), "-": () => app.zoom(CLOSER), 0: () => app.goHome(),
    p: () => app.pin(), Enter: () => app.pin(), x: () => app.setPins([]),
    c: () => app.nextColor(1), C: () => app.nextColor(-1),
    s: () => app.setScale(SCALES[(SCALES.indexOf(app.scale.name) + 1) % 3]), t: () => app.toggleTheme(), y: () => app.copy(),
    "/": () => app.search.focus(), r: () => app.rowField.focus(), "?": () => app.toggleHelp(), h: () => app.toggleHelp(),
    b: () => selection && app.setCosts(selection.costs, true),
    n: () => frontier && app.nextPoint(1), N: () => frontier && app.nextPoint(-1),
  }; // prettier-ignore
}
