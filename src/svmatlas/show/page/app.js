// The page: its elements, its state, and what can be done to it. Drawing is in scene.js, mouse and keys are in input.js.

import { homogeneous, makeAtlas } from "./atlas.js";
import { Cards } from "./cards.js";
import { PIN_COLORS, colorAt } from "./colors.js";
import { button, counted, element } from "./dom.js";
import { Painter } from "./draw.js";
import { eventPaths } from "./events.js";
import { helpPanel } from "./help.js";
import { CLOSER, listen, numbersIn } from "./input.js";
import { Legend } from "./legend.js";
import { readLink, writeLink } from "./link.js";
import { bestPoint, frontierCard, selectionCard } from "./linked.js";
import { locate } from "./locate.js";
import { Overlay } from "./overlay.js";
import { PIN_NAMES, comparison, modelCard, pythonOf } from "./panel.js";
import { SCALES, costsAt, fromPixel, homeView } from "./plane.js";
import { LOOK, Scene } from "./scene.js";
import { confusion, predictions, scoresOf } from "./scores.js";
import { modelAt } from "./solve.js";
import { scoreAt } from "./surface.js";
import { unpack } from "./unpack.js";
import { Values, quantities } from "./values.js";

const FURTHEST = 2; // zoom from home
const TURN = 12; // milliseconds of work on values at a time: then the page answers
const SAID = 4000; // milliseconds that a message stays
const SHOW = 250; // milliseconds after which new values are drawn

const SCALE_NAMES = { log: "logarithmic", linear: "linear", triangle: "triangle" };

function field(className, text, label) {
  const made = element("input", className);
  made.placeholder = text;
  made.title = label;
  made.setAttribute("aria-label", label);
  return made;
}

export class App extends Scene {
  constructor(root, atlas, hooks = {}) {
    super();
    Object.assign(this, { root, atlas, hooks, pins: [], rows: [], point: null, costs: null, paths: null });
    this.quantities = quantities(atlas);
    this.money = { fp: 1, fn: 1, prior: atlas.frontier?.prior ?? 0.5 };
    this.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.build();
    this.painter = new Painter(this.plane, atlas.nDrawn);
    this.overlay = new Overlay(this.marks);
    this.values = new Values(atlas, this.painter);
    this.measure();
    this.setScale("log");
    this.setColor(this.quantities[0].id);
    listen(this);
    this.setTheme(this.theme);
  }

  async firstPicture() {
    do await new Promise((done) => setTimeout(done, LOOK));
    while (!this.drawn || this.isDrawing);
  }

  // After the first picture: models need the neighbours of all facets.
  begin() {
    const { link, costs } = this.hooks;
    this.apply(link === undefined ? { costs } : readLink(link));
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
    this.cards = new Cards(this.side);
    this.help = helpPanel(this.atlas.classes, () => this.toggleHelp(false));
    this.search = field("search", "go to C+, C−", "costs to go to, as 0.1, 2 (/)");
    this.rowField = field("row", "follow rows", "numbers of rows whose events are drawn, as 3, 17 (r)");
    this.colorChoice = this.choice(this.quantities.map(({ id, label }) => [id, label]), (id) => this.setColor(id));
    this.scaleChoice = this.choice(SCALES.map((name) => [name, SCALE_NAMES[name]]), (name) => this.setScale(name));
    const title = element("h1", "", this.atlas.title);
    title.title = this.atlas.title;
    const bar = element("header", "top", title, this.search, this.rowField);
    bar.append(element("label", "", "colour", this.colorChoice), element("label", "", "scale", this.scaleChoice), this.tools());
    this.root.classList.add("svmatlas");
    this.foot = element("footer", "", this.facts());
    this.foot.setAttribute("aria-live", "polite");
    this.root.append(bar, element("main", "", this.window, this.side), this.foot, this.help);
  }

  tools() {
    const zoom = [button("−", "zoom out (−)", () => this.zoom(CLOSER)), button("+", "zoom in (+)", () => this.zoom(1 / CLOSER))];
    zoom.forEach((one) => one.classList.add("zoom"));
    const home = button("all", "see all (0)", () => this.goHome());
    const theme = button("◐", "dark or light (t)", () => this.toggleTheme());
    return element("div", "tools", ...zoom, home, theme, button("?", "help (?)", () => this.toggleHelp()));
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
    const meaning = `Each point is a classifier trained with two costs of errors: C+ on “${classes[1]}”, C− on “${classes[0]}”. Help: ?`;
    if (!totalFacets) return meaning;
    const sizes = `${counted(totalFacets)} facets in ${counted(nLayers)} layers${complete ? "" : ", not all of the plane"}`;
    const held = ` This page holds ${counted(nFacets)} of them; the rest is a picture in pixels.`;
    return `${meaning} · ${counted(nRows)} rows, ${counted(nFeatures)} columns; ${sizes}.${nFacets < totalFacets ? held : ""}`;
  }

  measure() {
    const box = this.window.getBoundingClientRect();
    this.ratio = Math.min(2, globalThis.devicePixelRatio || 1);
    const size = { width: Math.max(50, Math.round(box.width)), height: Math.max(50, Math.round(box.height)), ratio: this.ratio };
    if (JSON.stringify(size) === JSON.stringify(this.size)) return;
    this.size = size;
    for (const canvas of [this.plane, this.marks]) {
      [canvas.width, canvas.height] = [this.ratio * size.width, this.ratio * size.height];
    }
  }

  // State

  setColor(id) {
    const quantity = this.quantities.find((one) => one.id === id) || this.quantities[0];
    this.quantity = quantity;
    this.colorChoice.value = quantity.id;
    const pinned = this.pins[0] && modelAt(this.atlas, ...this.pins[0]);
    this.values.choose(quantity, { row: this.rows[0] ?? 0, predictions: pinned && predictions(this.atlas, pinned.beta) });
    this.setPicture(quantity.id);
    this.asked = null;
    this.changed();
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
      if (place.every(Number.isFinite)) this.view = { ...this.view, x: place[0], y: place[1] };
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

  nextPoint(step) {
    const { length } = this.atlas.frontier.fpr;
    const from = this.point ?? (step > 0 ? -1 : 0);
    this.setPoint((from + step + length) % length);
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

  apply({ scale, view, color, theme, pins = [], rows, point, costs, money }) {
    this.setTheme(theme || this.theme);
    if (scale && scale !== this.scale.name) this.setScale(scale);
    if (view) this.view = view;
    if (rows) this.setRows(rows);
    this.setPins(pins);
    if (point !== undefined && this.atlas.frontier && point < this.atlas.frontier.fpr.length) this.point = point;
    if (money) this.money = money;
    if (color) this.setColor(color);
    const start = costs || this.atlas.selection?.costs || this.middle();
    if (start) this.setCosts(start);
  }

  middle() {
    return costsAt(this.scale, this.view.x, this.view.y);
  }

  get link() {
    const { view, costs, pins, rows, point, theme, atlas } = this;
    const money = atlas.frontier && this.money;
    return writeLink({ view, costs, pins, rows, point, theme, money, scale: this.scale.name, color: this.quantity.id });
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
      this.say(`Copied: ${text.split("\n").slice(-2).join("; ")}`);
    } catch {
      this.search.value = text.replaceAll("\n", "; "); // no right to the clipboard: there it can be copied by hand
      this.search.select();
    }
  }

  // For some seconds instead of the facts below the plane.
  say(text) {
    clearTimeout(this.saying);
    this.foot.textContent = text;
    this.saying = setTimeout(() => (this.foot.textContent = this.facts()), SAID);
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

  resized() {
    this.measure();
    this.changed();
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
    this.lastFrame = performance.now();
    this.work();
    clearTimeout(this.linking);
    this.linking = setTimeout(() => this.hooks.linked?.(this.link), 200);
    this.frames = (this.frames || 0) + 1;
  }

  // Values are computed in turns, between which the page answers, and are drawn now and then.
  work() {
    if (this.working || !this.values.pending) return;
    this.working = setTimeout(() => {
      this.working = null;
      this.values.work(TURN);
      const due = performance.now() > this.lastFrame + SHOW && !this.isDrawing;
      if (due || !this.values.pending) this.changed();
      this.work();
    });
  }

  // The panel beside the plane

  showPanel() {
    const { atlas, costs, pins, point, money } = this;
    const models = () => pins.map((pin) => modelAt(atlas, ...pin));
    const list = [];
    const add = (name, key, make) => list.push({ name, key, make });
    if (atlas.totalFacets) add("here", costs, () => modelCard(atlas, this.model, "Here", null, this.modelActions()));
    if (pins.length === 2) add("compare", pins, () => comparison(atlas, ...models()));
    if (atlas.selection) add("selection", costs, () => selectionCard(atlas, costs, this.selectionActions()));
    if (atlas.frontier) add("frontier", [point, money], () => this.frontierCard());
    pins.forEach((pin, k) => {
      const unpin = ["unpin", "remove this pin", () => this.setPins(this.pins.filter((_, j) => j !== k))];
      add(PIN_NAMES[k], pin, () => modelCard(atlas, models()[k], PIN_NAMES[k], PIN_COLORS[k], [unpin]));
    });
    this.cards.show(list);
  }

  modelActions() {
    return [["pin", "pin (p)", () => this.pin()], ["copy as Python", "copy (y)", () => this.copy()]]; // prettier-ignore
  }

  frontierCard() {
    const [choose, change] = [(k) => this.setPoint(k), (money) => this.setMoney(money)];
    return frontierCard(this.atlas.frontier, this.point, this.money, choose, change);
  }

  selectionActions() {
    const { costs } = this.atlas.selection;
    return [
      ["go there", "best costs (b)", () => this.setCosts(costs, true)],
      ["show the score", "colours", () => this.setColor("selection")],
    ];
  }

  // For programs

  query(cPos, cNeg) {
    const model = modelAt(this.atlas, cPos, cNeg);
    if (!model) return null;
    const counts = confusion(this.atlas, predictions(this.atlas, model.beta));
    const { number: facet, gap, intercept } = model;
    const [coef, share] = [model.coef && Array.from(model.coef), Array.from(model.share)];
    return { facet, gap, intercept, coef, share, counts, scores: scoresOf(counts) };
  }

  python() {
    return pythonOf(this.atlas, this.model);
  }

  tableColor(id, place) {
    return colorAt(id === this.quantity.id ? this.values.table : this.quantities.find((one) => one.id === id).table, place);
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

// Show packed data in an element.
export async function mount(root, packed, hooks) {
  const note = element("p", "note", "decompressing …");
  root.append(note);
  try {
    const atlas = makeAtlas(await unpack(packed));
    note.remove();
    const app = new App(root, atlas, hooks);
    await app.firstPicture();
    app.begin();
    return app;
  } catch (error) {
    note.textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  }
}
