// Lines and marks over the plane, on a canvas of their own: axes, outlines of cells, event paths, a grid, pins and the cursor.

import { EVENT_COLORS, PIN_COLORS } from "./colors.js";
import { short } from "./dom.js";
import { bend, boxOf, halfPlanes, placeOf, toPixel } from "./plane.js";
import { ticksOf } from "./ticks.js";

const FONT = "12px system-ui, sans-serif";
const BENT = 0.3; // pixels that a drawn line may be off
const NAME_BELOW = 34; // pixels from the upper and lower side that have no numbers of the vertical axis: names and others are there
const ROOM = 20; // pixels from the left and right side that have no numbers of the horizontal axis: they would be cut
const TINY = 6; // pixels up to which a cell is marked by a ring: its outline alone would be a speck
const CROSS = [5, 12]; // pixels where the lines of the cursor begin and end: what is under it is seen

export class Overlay {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  begin(view, size, scale, ink) {
    const ratio = this.canvas.width / size.width;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, size.width, size.height);
    Object.assign(this, { view, size, scale, ink, planes: halfPlanes(scale, boxOf(view, size, 0.1)) });
  }

  pixel(place) {
    return toPixel(this.view, this.size, place[0], place[1]);
  }

  trace(line) {
    line.forEach((place, k) => this.context[k ? "lineTo" : "moveTo"](...this.pixel(place)));
  }

  // Rings of homogeneous costs p, q, l, p, q, l, ..., so that they stand out on any colour.
  outline(cells, color) {
    this.context.beginPath();
    for (const rings of cells) {
      for (const ring of rings) this.traceRing(ring);
      if (rings.length) this.traceTiny(rings[0]);
    }
    this.strokeTwice(color, 1.8);
  }

  traceTiny(ring) {
    const corners = [];
    for (let k = 0; k < ring.length; k += 3) corners.push(this.pixel(placeOf(this.scale, ring[k], ring[k + 1], ring[k + 2])));
    const [[left, right], [top, bottom]] = [0, 1].map((axis) => {
      const values = corners.map((corner) => corner[axis]);
      return [Math.min(...values), Math.max(...values)];
    });
    if (!(right - left < TINY && bottom - top < TINY)) return;
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    this.context.moveTo(x + TINY, y);
    this.context.arc(x, y, TINY, 0, 2 * Math.PI);
  }

  traceRing(ring) {
    for (let k = 0; k < ring.length; k += 3) {
      const next = (k + 3) % ring.length;
      this.trace(bend(this.scale, ring.slice(k, k + 3), ring.slice(next, next + 3), BENT * this.view.step, this.planes));
    }
  }

  strokeTwice(color, width) {
    const { context } = this;
    context.lineJoin = "round";
    context.strokeStyle = "#ffffff";
    context.lineWidth = width + 2;
    context.stroke();
    context.strokeStyle = color;
    context.lineWidth = width;
    context.stroke();
  }

  // Edges as pairs of vertices, by type of event.
  events(atlas, paths) {
    const c = (v) => [atlas.vertexP[v] / atlas.unit, atlas.vertexQ[v] / atlas.unit, atlas.vertexL[v]];
    paths.forEach((edges, type) => {
      this.context.beginPath();
      for (const [v, w] of edges) this.trace(bend(this.scale, c(v), c(w), BENT * this.view.step, this.planes));
      this.strokeTwice(EVENT_COLORS[type], 2);
    });
  }

  dots(costs, radius) {
    const { context } = this;
    context.beginPath();
    for (const [p, q] of costs) {
      const [x, y] = this.pixel(placeOf(this.scale, p, q, 1));
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fillStyle = "#ffffff";
    context.fill();
    context.strokeStyle = "#111111";
    context.lineWidth = 0.8;
    context.stroke();
  }

  placeOfCosts([p, q]) {
    if (p === Infinity || q === Infinity) {
      return this.scale.name === "triangle" ? placeOf(this.scale, p === Infinity ? 1 : 0, q === Infinity ? 1 : 0, 0) : null;
    }
    return placeOf(this.scale, p, q, 1);
  }

  cross(costs, color) {
    const place = this.placeOfCosts(costs);
    if (!place) return;
    const [x, y] = this.pixel(place);
    const { context } = this;
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { // prettier-ignore
      context.moveTo(x + CROSS[0] * dx, y + CROSS[0] * dy);
      context.lineTo(x + CROSS[1] * dx, y + CROSS[1] * dy);
    }
    this.strokeTwice(color, 1.6);
  }

  star(costs) {
    const place = this.placeOfCosts(costs);
    if (!place) return;
    const [x, y] = this.pixel(place);
    const { context } = this;
    context.font = "18px sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.strokeStyle = "#ffffff";
    context.strokeText("★", x, y);
    context.fillStyle = "#d7191c";
    context.fillText("★", x, y);
  }

  pin(costs, k, name) {
    const place = this.placeOfCosts(costs);
    if (!place) return;
    const [x, y] = this.pixel(place);
    const { context } = this;
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.fillStyle = PIN_COLORS[k];
    context.fill();
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2;
    context.stroke();
    context.fillStyle = "#ffffff";
    context.font = "bold 11px sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(name, x, y + 0.5);
  }

  // Ticks along the left and lower side of the window, and the border of the triangle. ``classes``: negative and positive.
  axes(classes) {
    if (this.scale.name === "triangle") this.border();
    const { width, height } = this.size;
    for (const axis of [0, 1]) {
      for (const { at, text } of this.ticks(axis)) {
        const [x, y] = this.pixel(axis ? [this.view.x, at] : [at, this.view.y]);
        if (axis ? y < NAME_BELOW || y > height - NAME_BELOW : x < ROOM || x > width - ROOM) continue;
        if (axis) this.label(text, 6, y, "left");
        else this.label(text, x, height - 8, "center");
      }
    }
    const [negative, positive] = classes.map((name) => `cost of errors on “${short(name)}”`);
    const most = this.scale.name === "triangle" ? 0 : 0.9 * width; // a corner of the triangle is there
    this.label(this.fitting([`C+: ${positive} →`, "C+ →"], most), width - 8, height - 26, "right");
    this.label(this.fitting([`↑ C−: ${negative}`, "↑ C−"], 0.58 * width), 6, 12, "left");
  }

  border() {
    this.context.beginPath();
    this.trace([[0, 0], [1, 0], [0, 1], [0, 0]]); // prettier-ignore
    this.strokeTwice(this.ink, 1);
    const [x, y] = this.pixel([0.5, 0.5]);
    this.label("infinity", x + 30, y - 10, "center");
  }

  // The first of some texts that is no wider than so many pixels.
  fitting(texts, most) {
    this.context.font = FONT;
    return texts.find((text) => this.context.measureText(text).width < most) ?? texts.at(-1);
  }

  label(text, x, y, align) {
    const { context } = this;
    context.font = FONT;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.strokeStyle = this.ink === "#111111" ? "#ffffff" : "#111111";
    context.strokeText(text, x, y);
    context.fillStyle = this.ink;
    context.fillText(text, x, y);
  }

  ticks(axis) {
    const length = axis ? this.size.height : this.size.width;
    const middle = axis ? this.view.y : this.view.x;
    const half = (length / 2) * this.view.step;
    return ticksOf(this.scale, middle - half, middle + half, length);
  }
}
