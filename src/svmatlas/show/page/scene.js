// The plane as it is drawn: triangles of all facets, finer ones of those in view, pictures of pixels, and the marks on top.
//
// All facets are drawn once per view. Where few are in view they are made anew, as exactly as the zoom asks for, with their edges.
// On machines that take long, a movement shifts what was drawn before, and facets are drawn when it rests.

import { counted } from "./dom.js";
import { PIN_NAMES } from "./panel.js";
import { bend, boxOf, halfPlanes, homeView, makeScale, placeOf } from "./plane.js";
import { hasSurface, scoresIn } from "./surface.js";
import { alongCurve, facetsIn, largest, layOut, onPixels, ringOf, triangulate } from "./triangles.js";
import { FAR, usualRange } from "./values.js";

const CHORD = 0.3; // pixels that a drawn facet may be off
const FINE = 60000; // facets in view up to which they are drawn anew, as exactly as the zoom asks for, with their edges
const FIRST = 2000; // facets that values are computed for first
const AROUND = 0.5; // what is drawn beside the home view, as a share of it; further out only what is drawn anew
const SAMPLED = 7; // one of so many pixels is looked at for the range of the scores
const CHUNK = 2048; // facets that are drawn or left out together
const SLOW = 25; // milliseconds that drawing all facets may take in each frame of a movement
export const LOOK = 4; // milliseconds between looks whether facets are drawn
const REST = 120; // milliseconds without movement after which they are drawn if they take longer
const THEMES = {
  dark: { background: [0.09, 0.1, 0.12], unknown: [0.22, 0.23, 0.26], ink: "#eeeeee", edge: [0, 0, 0, 1] },
  light: { background: [1, 1, 1], unknown: [0.87, 0.87, 0.88], ink: "#111111", edge: [0.15, 0.15, 0.15, 1] },
};

// The drawing half of the page: what App (app.js) builds on, and whose state it shows.
export class Scene {
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

  setPicture(id) {
    this.picture = null;
    if (id === "selection" && hasSurface(this.atlas)) return;
    const whole = id === "selection" ? this.atlas.selection : this.atlas.pictures?.find(({ name }) => name === id);
    if (!whole) return;
    const values = this.atlas[id === "selection" ? "scores" : `picture:${id}`];
    this.painter.setPicture(values, whole.pixels, whole.pixels);
    const colors = whole.quantiles ? usualColors(whole.quantiles) : scoreRange(values, whole.bestScore);
    this.picture = { box: whole.limits.map(Math.log10), ...colors, direct: false };
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
      const colors = scoreRange(values, this.atlas.selection.bestScore);
      this.picture = { box: now, ...colors, direct: true, scaleName: this.scale.name, key: JSON.stringify([now, this.scale.name]) };
      this.changed();
    }, 30);
  }

  get range() {
    return this.picture?.range ?? (this.quantity.picture ? [0, 1] : this.values.shown);
  }

  draw() {
    if (this.isMoving()) return this.shift(this.last.view);
    this.drawPlane();
    this.drawMarks(THEMES[this.theme].ink);
    this.legend.show({ label: this.quantity.label, table: this.values.table }, this.range, this.note(), this.picture ?? this.values);
  }

  // The facets, if they are not drawn already: where only marks have changed they stay.
  drawPlane() {
    const { painter, view, size, scale, quantity, theme, fine } = this;
    const key = [view, size, scale, quantity, theme, fine, this.picture, this.values.version, ...this.range];
    if (this.drawn?.every((value, k) => value === key[k])) return;
    this.late = this.isDrawing;
    if (this.late) return;
    this.drawn = key;
    this.shift();
    const { background, unknown, edge } = THEMES[theme];
    painter.setColors(this.values.table);
    painter.begin(this.isFine(), background);
    if (this.atlas.pictures && !quantity.picture && !this.picture) painter.clear(unknown); // the page does not hold the facets there
    if (this.picture) this.drawPicture(unknown);
    if (!quantity.picture) this.drawFacets({ view, size, scale, range: this.range, axis: this.values.axis, unknown }, edge);
    painter.end();
    const isDrawn = painter.fence();
    this.last = { view, scale, begin: performance.now(), milliseconds: null };
    this.waitUntil(isDrawn);
  }

  drawFacets(style, edge) {
    const { painter, fine } = this;
    this.values.upload();
    if (!this.isFine()) return painter.draw(this.base.loaded, this.stretches(), style);
    painter.draw(fine.loaded, [[0, fine.loaded.count]], style);
    if (fine.lines) painter.draw(fine.lines, [[0, fine.lines.count]], { ...style, plain: edge, lines: true });
    return undefined;
  }

  // Until facets are drawn no others are: the page answers in the meantime.
  waitUntil(isDrawn) {
    setTimeout(() => {
      if (!isDrawn()) return this.waitUntil(isDrawn);
      this.last.milliseconds = performance.now() - this.last.begin;
      if (this.late) this.changed();
      return undefined;
    }, LOOK);
  }

  get isDrawing() {
    return this.last?.milliseconds === null;
  }

  // Whether the view has changed just now, and facets take too long to draw: then they wait until it is at rest.
  isMoving() {
    const { last, view } = this;
    if (!last || last.scale !== this.scale || last.view === view) return false;
    if (this.isDrawing) return (this.late = true);
    if (last.milliseconds < SLOW || last.rested === view) return false;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = null;
      last.rested = this.view;
      this.changed();
    }, REST);
    return true;
  }

  // Show what was drawn for another view where it belongs in this one.
  shift({ x, y, step } = this.view) {
    const { view, plane, marks } = this;
    const move = `translate(${(x - view.x) / view.step}px, ${(view.y - y) / view.step}px) scale(${step / view.step})`;
    for (const canvas of [plane, marks]) canvas.style.transform = step === view.step && x === view.x && y === view.y ? "" : move;
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
    overlay.axes(atlas.classes);
    this.pins.forEach((costs, k) => overlay.pin(costs, k, PIN_NAMES[k]));
    if (this.costs) overlay.cross(this.costs, "#111111");
  }

  note() {
    if (this.quantity.picture) return `exact in the middle of each pixel${this.picture?.direct ? "" : " of a picture"}; grey: not looked at`;
    if (this.atlas.pictures && this.picture) return "a picture, exact in the middle of each of its pixels, where the page holds no facets";
    if (!this.quantity.needsModels) return this.atlas.pictures ? "grey: the page holds no facets there" : "";
    const where = ["score", "disagree"].includes(this.quantity.id) ? "in the middle of each facet" : "";
    if (!this.values.pending) return where;
    const [done, total] = [this.values.done, this.values.total].map(counted);
    return `${where && `${where}; `}${done} of ${total} facets in view computed …`;
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

  // Values that need models: those of the facets in view, the largest first, then all that a pixel shows, then the rest.
  askValues() {
    if (!this.quantity.needsModels || this.resting) return;
    const key = JSON.stringify([this.view, this.size, this.scale.name]);
    if (this.asked === key) return;
    this.asked = key;
    const box = boxOf(this.view, this.size);
    const all = facetsIn(this.layout, box);
    const seen = onPixels(this.layout, all, box, this.view.step / this.ratio);
    this.values.ask([largest(this.layout, seen, FIRST), seen, all], (f, cPos, cNeg) => this.seenOf(f, cPos, cNeg, box));
  }

  // The user's costs in the middle of a facet, or of that part of it that is in a box.
  seenOf(f, cPos, cNeg, [x0, x1, y0, y1]) {
    const { scale, atlas } = this;
    const [x, y] = placeOf(scale, cPos, cNeg, 1);
    if (x >= x0 && x <= x1 && y >= y0 && y <= y1) return [cPos, cNeg];
    const ring = ringOf(atlas, halfPlanes(scale, [x0, x1, y0, y1]), f);
    if (!ring.length) return null;
    const [p, q, l] = [0, 1, 2].map((k) => ring.reduce((sum, c) => sum + c[k] / (c[0] + c[1] + c[2]), 0));
    return [p / l, q / l];
  }
}

function usualColors(quantiles) {
  const range = usualRange(quantiles);
  return { range, beyond: quantiles.at(-1) > range[1] };
}

// Colours are for the better half of the scores in view if the others are far below. The best cell may be smaller than a pixel.
function scoreRange(values, best) {
  const known = values.filter((_, k) => k % SAMPLED === 0).filter((value) => !Number.isNaN(value)).sort(); // prettier-ignore
  if (!known.length) return { range: [best, best], below: false };
  const [least, middle, top] = [known[0], known[known.length >> 1], Math.max(best, known.at(-1))];
  const below = top - least > FAR * (top - middle) && top > middle;
  return { range: [below ? middle : least, top], below };
}
