// The score of a selection in its true cells: what lies between the zero curves of all held-out rows (choose/arrangement.py).
//
// The prediction for a point turns where its curve is crossed. From a seat at which all are known, a walk to any costs gives the score
// there. For a picture a row of pixels is one walk: curves are sorted by where they cross it. Ends of pieces that join are equal, so
// that each curve is crossed as often as it must be.

import { placeOf } from "./plane.js";

const dot3 = (h, c, at) => h[0] * c[at] + h[1] * c[at + 1] + h[2] * c[at + 2];

class Count {
  constructor(atlas) {
    this.atlas = atlas;
    this.positive = atlas.seatPositive.slice();
    this.counts = atlas.seatCounts.slice();
    this.nFolds = atlas.foldPos.length;
  }
  copy() {
    const made = new Count(this.atlas);
    made.positive.set(this.positive);
    made.counts.set(this.counts);
    return made;
  }
  turn(point) {
    const { atlas, nFolds, counts } = this;
    const sign = this.positive[point] ? -1 : 1;
    this.positive[point] = 1 - this.positive[point];
    counts[atlas.pointFold[point]] += sign * atlas.pointPos[point];
    counts[nFolds + atlas.pointFold[point]] -= sign * atlas.pointNeg[point];
  }
  // NaN where a search that ended early has not looked: there no row of a fold is right (choose/select.py).
  get score() {
    const { atlas, nFolds, counts } = this;
    let total = 0;
    for (let k = 0; k < nFolds; k++) {
      if (counts[k] === 0 && counts[nFolds + k] === 0) return NaN;
      total += atlas.table[atlas.tableAt[k] + counts[k] * (atlas.foldNeg[k] + 1) + counts[nFolds + k]];
    }
    return total / nFolds;
  }
}

// Predictions at homogeneous costs, by a straight walk from the seat; all in units of the seat, so that it is at (1, 1, 1).
function walkTo(atlas, to) {
  const { curves, curvePoint, seat } = atlas;
  const found = new Count(atlas);
  const s = to.map((value, k) => value / seat[k]);
  const n = [s[2] - s[1], s[0] - s[2], s[1] - s[0]];
  const scaled = n.map((value, k) => value / seat[k]);
  const x = [0, 0, 0];
  for (let k = 0; k < curvePoint.length; k++) {
    const o = dot3(scaled, curves, 6 * k);
    const u = dot3(scaled, curves, 6 * k + 3);
    if (o > 0 === u > 0) continue;
    for (let i = 0; i < 3; i++) x[i] = (Math.abs(u) * curves[6 * k + i] + Math.abs(o) * curves[6 * k + 3 + i]) / seat[i];
    // x = near s + far (1, 1, 1)
    const far = n[0] * (x[1] * s[2] - x[2] * s[1]) + n[1] * (x[2] * s[0] - x[0] * s[2]) + n[2] * (x[0] * s[1] - x[1] * s[0]);
    const near = n[0] * (x[2] - x[1]) + n[1] * (x[0] - x[2]) + n[2] * (x[1] - x[0]);
    if (near > 0 && far > 0) found.turn(curvePoint[k]);
  }
  return found;
}

export function hasSurface(atlas) {
  return Boolean(atlas.curves);
}

export function scoreAt(atlas, cPos, cNeg) {
  const c = [cPos, cNeg, 1];
  return isLookedAt(atlas, c) ? walkTo(atlas, c).score : NaN;
}

// Whether homogeneous costs are in the part of the plane that the selection holds curves of.
function isLookedAt(atlas, c) {
  return atlas.selection.region.every(([low, high], k) => c[k] >= low * c[2] && c[k] <= (high ?? Infinity) * c[2]);
}

// Where pieces cross lines of equal steps on which one coordinate (0: x, 1: y) is constant: for each line the crossings (place on
// the other axis, point), in order.
function crossings(atlas, scale, axis, lines) {
  const { curves, curvePoint } = atlas;
  const found = Array.from(lines, () => []);
  const step = lines.length > 1 ? lines[1] - lines[0] : 1;
  for (let k = 0, at = 0; k < curvePoint.length; k++, at += 6) {
    const a = placeOf(scale, curves[at], curves[at + 1], curves[at + 2])[axis];
    const b = placeOf(scale, curves[at + 3], curves[at + 4], curves[at + 5])[axis];
    const first = Math.max(0, Math.floor((Math.min(a, b) - lines[0]) / step));
    const last = Math.min(lines.length - 1, Math.ceil((Math.max(a, b) - lines[0]) / step));
    for (let r = first; r <= last; r++) {
      if (lines[r] > a === lines[r] > b) continue;
      found[r].push({ place: crossingOf(scale, curves, at, axis, lines[r]), point: curvePoint[k] });
    }
  }
  for (const line of found) line.sort((one, other) => one.place - other.place);
  return found;
}

// The line as a linear function of homogeneous costs.
function lineOf(scale, axis, value) {
  const triangle = scale.name === "triangle";
  const cost = scale.name === "log" ? 10 ** value : value;
  const h = triangle ? [-value / scale.unit, -value / scale.unit, -value] : [0, 0, -cost];
  h[axis] += triangle ? 1 / scale.unit : 1;
  return h;
}

function crossingOf(scale, curves, at, axis, value) {
  const h = lineOf(scale, axis, value);
  const o = Math.abs(dot3(h, curves, at));
  const u = Math.abs(dot3(h, curves, at + 3));
  const [p, q, l] = [0, 1, 2].map((i) => u * curves[at + i] + o * curves[at + 3 + i]);
  return placeOf(scale, p, q, l)[1 - axis];
}

// Scores in the middles of width x height pixels of a box of places; NaN where there are no costs of the region.
export function scoresIn(atlas, scale, [x0, x1, y0, y1], width, height) {
  const xs = Float64Array.from({ length: width }, (_, i) => x0 + ((i + 0.5) / width) * (x1 - x0));
  const ys = Float64Array.from({ length: height }, (_, j) => y0 + ((j + 0.5) / height) * (y1 - y0));
  const out = new Float32Array(width * height).fill(NaN);
  const left = xs.findIndex((x) => ys.some((y) => costsIn(atlas, scale, x, y)));
  if (left < 0) return out;
  const rows = crossings(atlas, scale, 1, ys);
  const [upwards] = crossings(atlas, scale, 0, [xs[left]]);
  const bottom = ys.findIndex((y) => costsIn(atlas, scale, xs[left], y));
  const state = walkTo(atlas, costsIn(atlas, scale, xs[left], ys[bottom]));
  let next = firstBeyond(upwards, ys[bottom]);
  for (let j = bottom; j < height && costsIn(atlas, scale, xs[left], ys[j]); j++) {
    for (; next < upwards.length && upwards[next].place <= ys[j]; next++) state.turn(upwards[next].point);
    fillRow(out.subarray(j * width, (j + 1) * width), rows[j], state.copy(), xs, left, (x) => costsIn(atlas, scale, x, ys[j]));
  }
  return out;
}

function firstBeyond(crossed, place) {
  const found = crossed.findIndex((one) => one.place > place);
  return found < 0 ? crossed.length : found;
}

function fillRow(out, crossed, state, xs, left, isIn) {
  let next = firstBeyond(crossed, xs[left]);
  let score = state.score;
  for (let i = left; i < xs.length && isIn(xs[i]); i++) {
    const before = next;
    for (; next < crossed.length && crossed[next].place <= xs[i]; next++) state.turn(crossed[next].point);
    if (next > before) score = state.score;
    out[i] = score;
  }
}

// Homogeneous costs at a place, or null outside the region.
function costsIn(atlas, scale, x, y) {
  let c = [x, y, 1];
  if (scale.name === "log") c = [10 ** x, 10 ** y, 1];
  if (scale.name === "triangle") c = [scale.unit * x, scale.unit * y, 1 - x - y];
  if (!(c[0] > 0 && c[1] > 0 && c[2] > 0)) return null;
  return isLookedAt(atlas, c) ? c : null;
}
