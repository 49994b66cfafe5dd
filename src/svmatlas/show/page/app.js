// The page: state, what is drawn, and what happens when something is done to it. Everything else is in the other modules.

import { homogeneous, makeAtlas } from "./atlas.js";
import { Painter } from "./draw.js";
import { button, element } from "./dom.js";
import { eventPaths } from "./events.js";
import { helpPanel } from "./help.js";
import { Legend } from "./legend.js";
import { bestPoint, frontierCard, selectionCard } from "./linked.js";
import { readLink, writeLink } from "./link.js";
import { locate } from "./locate.js";
import { Overlay } from "./overlay.js";
import { PIN_NAMES, comparison, modelCard, pythonOf } from "./panel.js";
import { PIN_COLORS, colorAt } from "./colors.js";
import { SCALES, bend, boxOf, costsAt, fromPixel, halfPlanes, homeView, makeScale } from "./plane.js";
import { confusion, predictions, scoresOf } from "./scores.js";
import { modelAt } from "./solve.js";
import { hasSurface, scoreAt, scoresIn } from "./surface.js";
import { alongCurve, facetsIn, layOut, ringOf, triangulate } from "./triangles.js";
import { Values, quantities } from "./values.js";
import { unpack } from "./unpack.js";

const CHORD = 0.3; // pixels that a drawn facet may be off
const FINE = 60000; // facets in view up to which they are drawn anew, as exactly as the zoom asks for, with their edges
const AROUND = 0.5; // what is drawn beside the home view, as a share of it; further out only what is drawn anew
const FURTHEST = 2; // zoom from home
const CHUNK = 2048; // facets that are drawn or left out together
const TURN = 10; // milliseconds of work on values between frames, and at least as long as a frame takes,
const LONGEST = 150; // but no longer than this
const SLOW = 25; // milliseconds that drawing all facets may take in each frame of a movement
const REST = 120; // milliseconds without movement after which they are drawn if they take longer
const CLOSER = 1.25; // one step of zoom
const THEMES = {
  dark: { background: [0.09, 0.1, 0.12], unknown: [0.22, 0.23, 0.26], ink: "#eeeeee", edge: [0, 0, 0, 1] },
  light: { background: [1, 1, 1], unknown: [0.87, 0.87, 0.88], ink: "#111111", edge: [0.15, 0.15, 0.15, 1] },
};

export class App {
  constructor(root, atlas, hooks = {}) {
    Object.assign(this, { root, atlas, hooks, pins: [], rows: [], point: null, costs: null, paths: null });
    this.quantities = quantities(atlas);
    this.money = { fp: 1, fn: 1, prior: atlas.frontier?.prior ?? 0.5 };
    this.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.build();
    this.painter = new Painter(this.plane, atlas.nFacets);
    this.overlay = new Overlay(this.marks);
    this.values = new Values(atlas, this.painter);
    this.measure();
    this.setScale("log");
    this.setColor(this.quantities[0].id);
    this.listen();
    this.setTheme(this.theme);
  }

  // After the first picture: models need the neighbours of all facets.
  begin() {
    this.apply(this.hooks.link === undefined ? {} : readLink(this.hooks.link));
  }

  // Elements

  build() {
    this.plane = element("canvas", "plane");
    this.marks = element("canvas", "marks");
    this.legend = new Legend();
    this.window = element("div", "window", this.plane, this.marks, this.legend.root);
    this.window.tabIndex = 0;
    this.window.setAttribute("aria-label", "the plane of costs; keys are listed under help");
    this.side = element("aside", "side");
    this.help = helpPanel(() => this.toggleHelp(false));
    this.search = element("input", "search");
    this.search.placeholder = "C+, C−";
    this.search.setAttribute("aria-label", "costs to go to");
    this.rowField = element("input", "row");
    this.rowField.placeholder = "rows";
    this.rowField.setAttribute("aria-label", "rows whose events are drawn");
    this.colorChoice = this.choice(this.quantities.map(({ id, label }) => [id, label]), (id) => this.setColor(id));
    this.scaleChoice = this.choice(SCALES.map((name) => [name, name]), (name) => this.setScale(name));
    const bar = element("header", "top", element("h1", "", this.atlas.title), this.search, this.rowField, this.colorChoice, this.scaleChoice);
    bar.append(button("−", "zoom out (−)", () => this.zoom(CLOSER)), button("+", "zoom in (+)", () => this.zoom(1 / CLOSER)));
    bar.append(button("all", "see all (0)", () => this.goHome()), button("◐", "dark or light (t)", () => this.toggleTheme()), button("?", "help (?)", () => this.toggleHelp()));
    this.root.classList.add("svmatlas");
    this.root.append(bar, element("main", "", this.window, this.side), element("footer", "", this.facts()), this.help);
  }

  choice(options, changed) {
    const select = element("select");
    for (const [value, text] of options) {
      const option = element("option", "", text);
      option.value = value;
      select.append(option);
    }
    select.addEventListener("change", () => changed(select.value));
    return select;
  }

  facts() {
    const { totalFacets, nFacets, nLayers, nRows, nFeatures, classes, complete } = this.atlas;
    if (!totalFacets) return `C+ is the cost of errors on “${classes[1]}”, C− on “${classes[0]}”.`;
    const held = nFacets < totalFacets ? ` This page holds ${nFacets.toLocaleString("en")} of them; the rest is a picture in pixels.` : "";
    return `${totalFacets.toLocaleString("en")} facets in ${nLayers} layers${complete ? "" : ", not all of the plane"}; ${nRows} rows, ${nFeatures} columns. C+ is the cost of errors on “${classes[1]}”, C− on “${classes[0]}”.${held}`;
  }

  measure() {
    const box = this.window.getBoundingClientRect();
    const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
    this.size = { width: Math.max(50, Math.round(box.width)), height: Math.max(50, Math.round(box.height)) };
    for (const canvas of [this.plane, this.marks]) {
      [canvas.width, canvas.height] = [ratio * this.size.width, ratio * this.size.height];
    }
  }

  // State

  setScale(name) {
    this.scale = makeScale(name, this.atlas.home);
    this.scaleChoice.value = name;
    this.view = homeView(this.scale, this.size.width, this.size.height);
    const { atlas, scale } = this;
    this.layout = layOut(atlas, scale);
    const order = alongCurve(atlas, this.layout, boxOf(this.view, this.size));
    if (this.base) this.painter.unload(this.base.loaded);
    const [box, tolerance] = [boxOf(this.view, this.size, AROUND), CHORD * this.view.step];
    const made = triangulate(atlas, order, { scale, layout: this.layout, box, tolerance });
    this.base = { loaded: this.painter.load(made), chunks: this.chunks(order, made.starts) };
    this.dropFine();
    this.changed();
  }

  chunks(order, starts) {
    const found = [];
    for (let k = 0; k < order.length; k += CHUNK) {
      const last = Math.min(order.length, k + CHUNK);
      const box = [Infinity, -Infinity, Infinity, -Infinity];
      for (let j = k; j < last; j++) {
        const at = 4 * order[j];
        const { boxes } = this.layout;
        box[0] = Math.min(box[0], boxes[at]);
        box[1] = Math.max(box[1], boxes[at + 1]);
        box[2] = Math.min(box[2], boxes[at + 2]);
        box[3] = Math.max(box[3], boxes[at + 3]);
      }
      found.push({ box, first: starts[k], count: starts[last] - starts[k] });
    }
    return found;
  }

  setColor(id) {
    const quantity = this.quantities.find((one) => one.id === id) || this.quantities[0];
    this.quantity = quantity;
    this.colorChoice.value = quantity.id;
    const pinned = this.pins[0] && modelAt(this.atlas, ...this.pins[0]);
    this.values.choose(quantity, { row: this.rows[0] ?? 0, predictions: pinned && predictions(this.atlas, pinned.beta) });
    this.painter.setColors(quantity.table);
    if (quantity.picture) this.setPicture(quantity.id);
    this.asked = null;
    this.changed();
  }

  setPicture(id) {
    this.picture = null;
    if (id === "selection" && hasSurface(this.atlas)) return;
    const whole = id === "selection" ? this.atlas.selection : this.atlas.pictures.find(({ name }) => `picture:${name}` === id);
    const values = this.atlas[id === "selection" ? "scores" : id];
    this.painter.setPicture(values, whole.pixels, whole.pixels);
    this.picture = { box: whole.limits.map(Math.log10), range: rangeOf(values, whole.bestScore), direct: false };
  }

  // The score in the pixels of the view, made anew when that has changed.
  makeSurface() {
    if (this.quantity.id !== "selection" || !hasSurface(this.atlas)) return;
    const box = boxOf(this.view, this.size);
    const key = JSON.stringify([box, this.scale.name]);
    if (this.picture?.key === key || this.surfacing) return;
    this.surfacing = setTimeout(() => {
      this.surfacing = null;
      const { width, height } = this.size;
      const now = boxOf(this.view, this.size);
      const values = scoresIn(this.atlas, this.scale, now, width, height);
      this.painter.setPicture(values, width, height);
      const range = rangeOf(values, this.atlas.selection.bestScore, this.picture?.range);
      this.picture = { box: now, range, direct: true, scaleName: this.scale.name, key: JSON.stringify([now, this.scale.name]) };
      this.changed();
    }, 30);
  }

  get range() {
    return this.quantity.picture ? (this.picture?.range ?? [0, 1]) : this.values.range;
  }

  // Rows whose event paths are drawn; alpha is that of the first.
  setRows(rows) {
    this.rows = rows.filter((row) => Number.isInteger(row) && row >= 0 && row < this.atlas.nRows);
    this.rowField.value = this.rows.join(", ");
    const paths = this.rows.map((row) => eventPaths(this.atlas, row));
    this.paths = paths.length ? [0, 1].map((type) => paths.flatMap((found) => found[type])) : null;
    if (this.quantity.id === "alpha") this.setColor("alpha");
    this.changed();
  }

  setCosts(costs, center = false) {
    this.costs = costs;
    if (center && costs.every(Number.isFinite)) {
      const place = this.overlay.placeOfCosts.call({ scale: this.scale }, costs);
      if (place.every(Number.isFinite)) Object.assign(this.view, { x: place[0], y: place[1] });
    }
    this.model = modelAt(this.atlas, ...costs);
    this.hooks.changed?.(costs);
    this.changed();
  }

  setPins(pins) {
    this.pins = pins.slice(-2);
    if (this.quantity.id === "disagree") this.setColor("disagree");
    this.changed();
  }

  pin() {
    if (this.costs && this.model) this.setPins(this.pins.length === 2 ? [this.pins[0], this.costs] : [...this.pins, this.costs]);
  }

  setPoint(k) {
    this.point = k;
    this.setCosts(this.atlas.frontier.costs[k]);
  }

  setMoney(money) {
    this.money = money;
    this.setPoint(bestPoint(this.atlas.frontier, money.fp, money.fn, money.prior));
  }

  setTheme(theme) {
    this.theme = theme;
    this.root.dataset.theme = theme;
    this.changed();
  }

  apply({ scale, view, color, theme, pins = [], rows, point, costs }) {
    this.setTheme(theme || this.theme);
    if (scale && scale !== this.scale.name) this.setScale(scale);
    if (view) this.view = view;
    if (rows) this.setRows(rows);
    this.setPins(pins);
    if (point !== undefined && this.atlas.frontier && point < this.atlas.frontier.fpr.length) this.point = point;
    if (color) this.setColor(color);
    const start = costs || this.atlas.selection?.costs || this.middle();
    if (start) this.setCosts(start);
  }

  middle() {
    return costsAt(this.scale, this.view.x, this.view.y);
  }

  get link() {
    const { view, costs, pins, rows, point, theme } = this;
    return writeLink({ view, costs, pins, rows, point, theme, scale: this.scale.name, color: this.quantity.id });
  }

  // Moving

  move(dx, dy) {
    this.view = { ...this.view, x: this.view.x + dx * this.view.step, y: this.view.y + dy * this.view.step };
    this.changed();
  }

  zoom(factor, px = this.size.width / 2, py = this.size.height / 2) {
    const [x, y] = fromPixel(this.view, this.size, px, py);
    const step = Math.min(this.view.step * factor, FURTHEST * homeView(this.scale, this.size.width, this.size.height).step);
    this.view = { step, x: x - (px - this.size.width / 2) * step, y: y + (py - this.size.height / 2) * step };
    this.changed();
  }

  goHome() {
    this.view = homeView(this.scale, this.size.width, this.size.height);
    this.changed();
  }

  pointer(event) {
    const box = this.window.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  hover(px, py) {
    const costs = costsAt(this.scale, ...fromPixel(this.view, this.size, px, py));
    if (costs) this.setCosts(costs);
  }

  nudge(dx, dy) {
    const place = this.costs && this.overlay.placeOfCosts.call({ scale: this.scale }, this.costs);
    if (!place) return;
    const costs = costsAt(this.scale, place[0] + dx * this.view.step, place[1] + dy * this.view.step);
    if (costs) this.setCosts(costs);
  }

  goTo(text) {
    const parts = numbersIn(text);
    const good = parts.length === 2 && parts.every((value) => value >= 0);
    this.search.classList.toggle("wrong", !good);
    if (good) this.setCosts(parts, true);
    return good;
  }

  async copy() {
    if (!this.model) return;
    const text = this.python();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      this.search.value = text; // no right to the clipboard: there it can be copied by hand
      this.search.select();
    }
  }

  toggleTheme() {
    this.setTheme(this.theme === "dark" ? "light" : "dark");
  }

  toggleHelp(open = this.help.hidden) {
    this.help.hidden = !open;
    if (open) this.help.querySelector("button").focus();
    else this.window.focus();
  }

  nextColor(step) {
    const k = this.quantities.indexOf(this.quantity);
    this.setColor(this.quantities[(k + step + this.quantities.length) % this.quantities.length].id);
  }

  // Events

  listen() {
    let drag = null;
    const fingers = new Map();
    const area = this.window;
    area.addEventListener("pointerdown", (event) => {
      area.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, this.pointer(event));
      drag = { at: this.pointer(event), moved: 0 };
    });
    area.addEventListener("pointermove", (event) => {
      const at = this.pointer(event);
      if (fingers.has(event.pointerId)) this.dragTo(fingers, event.pointerId, at, drag);
      else this.hover(...at);
    });
    const release = (event) => {
      fingers.delete(event.pointerId);
      if (drag && drag.moved < 4 && event.type === "pointerup") {
        this.hover(...this.pointer(event));
        this.pin();
      }
      drag = null;
    };
    area.addEventListener("pointerup", release);
    area.addEventListener("pointercancel", release);
    area.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(CLOSER ** Math.max(-3, Math.min(3, event.deltaY / 60)), ...this.pointer(event));
    }, { passive: false }); // prettier-ignore
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && this.goTo(this.search.value) && this.window.focus());
    this.rowField.addEventListener("change", () => this.setRows(numbersIn(this.rowField.value)));
    this.root.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resized()).observe(area);
  }

  dragTo(fingers, id, at, drag) {
    const others = Array.from(fingers).filter(([other]) => other !== id);
    const before = fingers.get(id);
    fingers.set(id, at);
    if (others.length === 0) this.move(before[0] - at[0], at[1] - before[1]);
    else {
      const [ox, oy] = others[0][1];
      const spread = (point) => Math.hypot(point[0] - ox, point[1] - oy) || 1;
      this.zoom(spread(before) / spread(at), (at[0] + ox) / 2, (at[1] + oy) / 2);
    }
    if (drag) drag.moved += Math.hypot(at[0] - before[0], at[1] - before[1]);
  }

  resized() {
    this.measure();
    this.changed();
  }

  key(event) {
    if (event.key === "Escape") return this.toggleHelp(false);
    if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const action = this.keys(event.shiftKey)[event.key];
    if (!action) return undefined;
    event.preventDefault();
    return action();
  }

  keys(shift) {
    const go = shift ? (dx, dy) => this.nudge(dx, dy) : (dx, dy) => this.move(40 * dx, 40 * dy);
    const { selection, frontier } = this.atlas;
    return {
      ArrowLeft: () => go(-1, 0), ArrowRight: () => go(1, 0), ArrowUp: () => go(0, 1), ArrowDown: () => go(0, -1),
      "+": () => this.zoom(1 / CLOSER), "=": () => this.zoom(1 / CLOSER), "-": () => this.zoom(CLOSER), 0: () => this.goHome(),
      p: () => this.pin(), Enter: () => this.pin(), x: () => this.setPins([]), c: () => this.nextColor(1), C: () => this.nextColor(-1),
      s: () => this.setScale(SCALES[(SCALES.indexOf(this.scale.name) + 1) % 3]), t: () => this.toggleTheme(), y: () => this.copy(),
      "/": () => this.search.focus(), r: () => this.rowField.focus(), "?": () => this.toggleHelp(), h: () => this.toggleHelp(),
      b: () => selection && this.setCosts(selection.costs, true),
      n: () => frontier && this.setPoint(((this.point ?? -1) + 1) % frontier.fpr.length),
    }; // prettier-ignore
  }

  // Drawing

  changed() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.frame());
  }

  frame() {
    this.scheduled = false;
    if (!this.view || !this.quantity) return;
    this.draw();
    this.showPanel();
    this.prepareFine();
    this.makeSurface();
    this.askValues();
    if (this.values.pending) {
      this.values.work(Math.min(LONGEST, Math.max(TURN, this.kept?.milliseconds ?? 0)));
      this.changed();
    }
    clearTimeout(this.linking);
    this.linking = setTimeout(() => this.hooks.linked?.(this.link), 200);
    this.frames = (this.frames || 0) + 1;
  }

  draw() {
    const { painter, view, size, scale, quantity } = this;
    const { background, unknown, ink, edge } = THEMES[this.theme];
    const style = { view, size, scale, range: this.range, axis: this.values.axis, unknown };
    painter.clear(background);
    const fine = this.isFine();
    if (quantity.picture) this.drawPicture(unknown);
    else if (this.isMoving()) this.drawKept();
    else this.drawFacets(style, fine);
    const lines = fine && !quantity.picture && !this.kept.shown ? this.fine.lines : null;
    if (lines) painter.draw(lines, [[0, lines.count]], { ...style, plain: edge, lines: true });
    this.drawMarks(ink);
    this.legend.show(quantity, this.range, this.note());
  }

  // All facets in view. How long it takes decides whether they are drawn anew in each frame of a movement.
  drawFacets(style, fine) {
    const { painter } = this;
    const begin = performance.now();
    if (fine) painter.draw(this.fine.loaded, [[0, this.fine.loaded.count]], style);
    else painter.draw(this.base.loaded, this.stretches(), style);
    painter.keep();
    this.kept = { view: this.view, scale: this.scale, milliseconds: performance.now() - begin, shown: false };
  }

  // Whether the view has changed just now, and facets take too long to draw: then they wait until it is at rest.
  isMoving() {
    const { kept, view } = this;
    if (!kept || kept.scale !== this.scale || kept.milliseconds < SLOW || kept.view === view) return false;
    if (kept.rested === view) return false;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = null;
      kept.rested = this.view;
      this.changed();
    }, REST);
    return true;
  }

  drawKept() {
    const { view, size } = this;
    const { view: before } = this.kept;
    this.kept.shown = true;
    const along = (from, to, length) => (2 * (from - to)) / (view.step * length);
    this.painter.drawKept(along(before.x, view.x, size.width), along(before.y, view.y, size.height), before.step / view.step);
  }

  // Boxes are given relative to the middle of the view: single precision is enough then.
  drawPicture(unknown) {
    const { picture, view, scale } = this;
    if (!picture || (picture.direct && picture.scaleName !== scale.name)) return;
    const relative = picture.direct || scale.name === "log" ? [view.x, view.x, view.y, view.y] : [0, 0, 0, 0];
    const [box, limits] = [boxOf(view, this.size), picture.box].map((one) => one.map((value, k) => value - relative[k]));
    this.painter.drawPicture({ box, limits, range: picture.range, unknown, scale, direct: picture.direct });
  }

  stretches() {
    const box = boxOf(this.view, this.size);
    const found = [];
    for (const { box: [x0, x1, y0, y1], first, count } of this.base.chunks) {
      if (x0 > box[1] || x1 < box[0] || y0 > box[3] || y1 < box[2]) continue;
      const last = found[found.length - 1];
      if (last && last[0] + last[1] === first) last[1] += count;
      else found.push([first, count]);
    }
    return found;
  }

  drawMarks(ink) {
    const { overlay, atlas } = this;
    overlay.begin(this.view, this.size, this.scale, ink);
    if (atlas.selection && this.quantity.id === "selection") {
      const { pos, neg } = atlas.selection.grid;
      overlay.dots(pos.flatMap((p) => neg.map((q) => [p, q])), 2);
    }
    if (atlas.selection) {
      overlay.outline(atlas.selection.cells, "#d7191c");
      overlay.star(atlas.selection.costs);
    }
    if (atlas.frontier && this.point !== null) overlay.outline(atlas.frontier.cells[this.point], "#0072b2");
    if (this.paths) overlay.events(atlas, this.paths);
    overlay.axes();
    this.pins.forEach((costs, k) => overlay.pin(costs, k, PIN_NAMES[k]));
    if (this.costs) overlay.cross(this.costs, "#111111");
  }

  note() {
    if (this.quantity.picture) return this.picture?.direct ? "exact in the middle of each pixel" : "exact in the middle of each pixel of a picture";
    if (!this.quantity.needsModels) return "";
    const known = `${this.values.done.toLocaleString("en")} facets computed`;
    const where = ["score", "disagree"].includes(this.quantity.id) ? "in the middle of each facet; " : "";
    return where + known + (this.values.pending ? " …" : "");
  }

  dropFine() {
    if (!this.fine) return;
    this.painter.unload(this.fine.loaded);
    if (this.fine.lines) this.painter.unload(this.fine.lines);
    this.fine = null;
  }

  // Whether what was drawn finely covers the view.
  isFine() {
    if (!this.fine) return false;
    const [x0, x1, y0, y1] = boxOf(this.view, this.size);
    const [a, b, c, d] = this.fine.box;
    const ratio = this.view.step / this.fine.step;
    return x0 >= a && x1 <= b && y0 >= c && y1 <= d && ratio > 0.4 && ratio < 1.6;
  }

  prepareFine() {
    if (this.isFine() || this.waiting) return;
    this.waiting = setTimeout(() => {
      this.waiting = null;
      this.makeFine();
    }, 60);
  }

  makeFine() {
    const box = boxOf(this.view, this.size, 0.25);
    const { step } = this.view;
    if (this.tooMany && this.tooMany.step === step && this.tooMany.box.every((value, k) => value === box[k])) return;
    const facets = facetsIn(this.layout, box);
    this.dropFine();
    this.tooMany = facets.length > FINE ? { step, box } : null;
    if (this.tooMany || !facets.length) return;
    const made = triangulate(this.atlas, facets, { scale: this.scale, layout: this.layout, box, tolerance: CHORD * step });
    const area = this.size.width * this.size.height;
    const lines = facets.length < area / 60 ? this.painter.load(this.edgesOf(facets, box)) : null;
    this.fine = { loaded: this.painter.load(made), lines, box, step };
    this.changed();
  }

  // The borders of some facets as lines, each with ends (place, facet).
  edgesOf(facets, box) {
    const places = [];
    const planes = halfPlanes(this.scale, box);
    const far = (x) => [Math.fround(x), x - Math.fround(x)];
    for (const f of facets) {
      const ring = ringOf(this.atlas, planes, f);
      ring.forEach((c, k) => {
        const line = bend(this.scale, c, ring[(k + 1) % ring.length], CHORD * this.view.step, planes);
        for (let j = 1; j < line.length; j++) for (const [x, y] of [line[j - 1], line[j]]) places.push(...far(x), ...far(y));
      });
    }
    return { places: Float32Array.from(places), facets: new Uint32Array(places.length / 4) };
  }

  // Values that need models: those of the facets in view, the largest first.
  askValues() {
    if (!this.quantity.needsModels) return;
    const key = JSON.stringify([this.view, this.scale.name]);
    if (this.asked === key) return;
    this.asked = key;
    const { boxes } = this.layout;
    const area = (f) => (boxes[4 * f + 1] - boxes[4 * f]) * (boxes[4 * f + 3] - boxes[4 * f + 2]);
    this.values.ask(facetsIn(this.layout, boxOf(this.view, this.size)).sort((f, g) => area(g) - area(f)));
  }

  // The panel beside the plane

  showPanel() {
    const key = JSON.stringify([this.costs, this.pins, this.point, this.money]);
    if (this.shown === key) return;
    this.shown = key;
    const { atlas } = this;
    const cards = [];
    const models = this.pins.map((costs) => modelAt(atlas, ...costs));
    if (models.length === 2 && models.every(Boolean)) cards.push(comparison(atlas, ...models));
    const copy = ["copy as Python", "copy (y)", () => this.copy()];
    if (atlas.nFacets) cards.unshift(modelCard(atlas, this.model, "Here", null, [["pin", "pin (p)", () => this.pin()], copy]));
    if (atlas.selection) cards.push(selectionCard(atlas, this.costs, [["go there", "best costs (b)", () => this.setCosts(atlas.selection.costs, true)], ["show the score", "colours", () => this.setColor("selection")]]));
    if (atlas.frontier) cards.push(frontierCard(atlas.frontier, this.point, this.money, (k) => this.setPoint(k), (money) => this.setMoney(money)));
    models.forEach((model, k) => cards.push(modelCard(atlas, model, PIN_NAMES[k], PIN_COLORS[k], [["unpin", "remove this pin", () => this.setPins(this.pins.filter((_, j) => j !== k))]])));
    this.side.replaceChildren(...cards);
  }

  // For programs

  query(cPos, cNeg) {
    const model = modelAt(this.atlas, cPos, cNeg);
    if (!model) return null;
    const counts = confusion(this.atlas, predictions(this.atlas, model.beta));
    return {
      facet: model.number, gap: model.gap, intercept: model.intercept, coef: model.coef && Array.from(model.coef), counts, scores: scoresOf(counts),
    }; // prettier-ignore
  }

  python() {
    return pythonOf(this.atlas, this.model);
  }

  tableColor(id, place) {
    const { table } = this.quantities.find((one) => one.id === id);
    return colorAt(table, place);
  }

  // The costs in the middle of a pixel, counted from the upper left, and its colour without what is drawn on top.
  costsOfPixel(i, j) {
    return costsAt(this.scale, ...fromPixel(this.view, this.size, i + 0.5, j + 0.5));
  }

  colorOfPixel(i, j) {
    return this.painter.colorAt((i + 0.5) / this.size.width, (j + 0.5) / this.size.height);
  }

  scoreAt(cPos, cNeg) {
    return scoreAt(this.atlas, cPos, cNeg);
  }

  locate(cPos, cNeg) {
    if (!Number.isFinite(cPos) || !Number.isFinite(cNeg)) return modelAt(this.atlas, cPos, cNeg)?.number ?? -1;
    const f = locate(this.atlas, homogeneous(this.atlas, cPos, cNeg));
    return f >= 0 && this.atlas.number ? this.atlas.number[f] : f;
  }
}

function numbersIn(text) {
  return text.split(/[,;\s]+/).filter(Boolean).map((part) => (/^(inf|∞)/i.test(part) ? Infinity : Number(part)));
}

function rangeOf(values, best = -Infinity, before = [Infinity, -Infinity]) {
  let [low, high] = before;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [Math.min(low, best), Math.max(high, best)]; // the best cell may be smaller than a pixel
}

// Show packed data in an element.
export async function mount(root, packed, hooks) {
  const note = element("p", "note", "decompressing …");
  root.append(note);
  try {
    const atlas = makeAtlas(await unpack(packed));
    note.remove();
    const app = new App(root, atlas, hooks);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    app.begin();
    return app;
  } catch (error) {
    note.textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  }
}
