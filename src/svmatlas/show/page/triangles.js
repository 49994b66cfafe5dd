// Facets -> triangles for the graphics card, on the places of a scale.
//
// Edges are straight in homogeneous costs, and a logarithmic scale bends them. So triangles are split at the middles of edges that
// are bent by more than a tolerance; whether an edge is split depends on it alone, so that no gaps open between neighbours.
// A place is stored as the sum of two single-precision numbers: relative to the middle of the view it has some 48 bits.

import { clip, halfPlanes, middleOf, placeOf } from "./plane.js";

const DEEPEST = 14; // splits of an edge in a row
const BENT = 0.29; // an edge of d decades is bent by at most this times d^2

class Growing {
  constructor(Kind, size) {
    this.array = new Kind(size);
    this.size = 0;
  }
  reserve(more) {
    if (this.size + more <= this.array.length) return;
    const larger = new this.array.constructor(2 * (this.size + more));
    larger.set(this.array.subarray(0, this.size));
    this.array = larger;
  }
  get used() {
    return this.array.subarray(0, this.size);
  }
}

export class Triangles {
  constructor(count) {
    this.places = new Growing(Float32Array, 12 * count + 64);
    this.facets = new Growing(Uint32Array, 3 * count + 16);
  }
  corner(x, y, facet) {
    const { array, size } = this.places;
    const [high, low] = [Math.fround(x), Math.fround(y)];
    array[size] = high;
    array[size + 1] = x - high;
    array[size + 2] = low;
    array[size + 3] = y - low;
    this.places.size += 4;
    this.facets.array[this.facets.size++] = facet;
  }
  add(a, b, c, facet) {
    this.places.reserve(12);
    this.facets.reserve(3);
    this.corner(a.x, a.y, facet);
    this.corner(b.x, b.y, facet);
    this.corner(c.x, c.y, facet);
  }
}

// Places of all vertices, as far as they are drawn (else NaN), and the box of each facet on the plane.
export function layOut(atlas, scale) {
  const n = atlas.vertexP.length;
  const [x, y] = [new Float64Array(n), new Float64Array(n)];
  const planes = halfPlanes(scale);
  for (let v = 0; v < n; v++) {
    const [p, q, l] = [atlas.vertexP[v] / atlas.unit, atlas.vertexQ[v] / atlas.unit, atlas.vertexL[v]];
    let drawn = true;
    for (const h of planes) drawn = drawn && h[0] * p + h[1] * q + h[2] * l >= 0;
    [x[v], y[v]] = drawn ? placeOf(scale, p, q, l) : [NaN, NaN];
  }
  return { x, y, boxes: boxesOf(atlas, scale, x, y) };
}

function boxesOf(atlas, scale, x, y) {
  const boxes = new Float32Array(4 * atlas.nFacets);
  for (let f = 0; f < atlas.nFacets; f++) {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    let whole = true;
    for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
      const v = atlas.corners[k];
      if (Number.isNaN(x[v])) whole = false;
      if (x[v] < x0) x0 = x[v];
      if (x[v] > x1) x1 = x[v];
      if (y[v] < y0) y0 = y[v];
      if (y[v] > y1) y1 = y[v];
    }
    if (!whole) [x0, x1, y0, y1] = boxOfRing(scale, ringOf(atlas, scale, f));
    boxes[4 * f] = x0;
    boxes[4 * f + 1] = x1;
    boxes[4 * f + 2] = y0;
    boxes[4 * f + 3] = y1;
  }
  return boxes;
}

function boxOfRing(scale, ring) {
  const places = ring.map((c) => placeOf(scale, ...c));
  const [xs, ys] = [places.map((place) => place[0]), places.map((place) => place[1])];
  return [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
}

// The ring of a facet in the user's homogeneous costs, as far as it is drawn.
export function ringOf(atlas, scale, f) {
  let ring = [];
  for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
    const v = atlas.corners[k];
    ring.push([atlas.vertexP[v] / atlas.unit, atlas.vertexQ[v] / atlas.unit, atlas.vertexL[v]]);
  }
  for (const h of halfPlanes(scale)) if (ring.length) ring = clip(ring, h);
  return ring;
}

function cornersOf(atlas, scale, layout, f) {
  const corners = [];
  for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
    const v = atlas.corners[k];
    if (Number.isNaN(layout.x[v])) return ringOf(atlas, scale, f).map((c) => cornerOf(scale, c));
    const l = atlas.vertexL[v] * atlas.unit;
    corners.push({ x: layout.x[v], y: layout.y[v], p: atlas.vertexP[v] / l, q: atlas.vertexQ[v] / l });
  }
  return corners;
}

function cornerOf(scale, [p, q, l]) {
  const [x, y] = placeOf(scale, p, q, l);
  return { x, y, p: p / l, q: q / l };
}

function split(out, a, b, c, facet, tolerance, depth) {
  const edges = [[a, b], [b, c], [c, a]]; // prettier-ignore
  const middles = edges.map(([u, v]) => (depth > 0 ? middleOf(u, v) : null));
  const [ab, bc, ca] = middles.map((middle) => (middle && middle.off > tolerance ? middle : null));
  const again = (u, v, w) => split(out, u, v, w, facet, tolerance, depth - 1);
  const count = (ab ? 1 : 0) + (bc ? 1 : 0) + (ca ? 1 : 0);
  if (count === 0) return out.add(a, b, c, facet);
  if (count === 3) return [again(a, ab, ca), again(ab, b, bc), again(ca, bc, c), again(ab, bc, ca)];
  const turned = (u, v, w) => split(out, u, v, w, facet, tolerance, depth); // so that ab is split, and if two are, bc
  if (count === 1 ? bc : !ab) return turned(b, c, a);
  if (count === 1 ? ca : !bc) return turned(c, a, b);
  if (count === 1) return [again(a, ab, c), again(ab, b, c)];
  return [again(a, ab, c), again(ab, bc, c), again(ab, b, bc)];
}

function addFacet(out, atlas, scale, layout, f, tolerance) {
  const corners = cornersOf(atlas, scale, layout, f);
  const box = layout.boxes.subarray(4 * f, 4 * f + 4);
  const wide = Math.max(box[1] - box[0], box[3] - box[2]);
  const flat = scale.name !== "log" || BENT * wide * wide < tolerance;
  for (let k = 1; k + 1 < corners.length; k++) {
    if (flat) out.add(corners[0], corners[k], corners[k + 1], f);
    else split(out, corners[0], corners[k], corners[k + 1], f, tolerance, DEEPEST);
  }
}

// The triangles of some facets, and where those of each begin (in corners).
export function triangulate(atlas, scale, layout, facets, tolerance) {
  const out = new Triangles(3 * facets.length);
  const starts = new Uint32Array(facets.length + 1);
  facets.forEach((f, k) => {
    addFacet(out, atlas, scale, layout, f, tolerance);
    starts[k + 1] = out.facets.size;
  });
  return { places: out.places.used, facets: out.facets.used, starts };
}

// All facets along a curve that keeps neighbours together, so that few stretches of them are in view.
export function alongCurve(layout, box) {
  const n = layout.boxes.length / 4;
  const keys = new Float64Array(n);
  const place = (value, low, high) => Math.max(0, Math.min(1023, Math.floor((1024 * (value - low)) / (high - low))));
  for (let f = 0; f < n; f++) {
    const x = place((layout.boxes[4 * f] + layout.boxes[4 * f + 1]) / 2, box[0], box[1]);
    const y = place((layout.boxes[4 * f + 2] + layout.boxes[4 * f + 3]) / 2, box[2], box[3]);
    keys[f] = (spread(x) + 2 * spread(y)) * 2 ** 22 + f;
  }
  return Uint32Array.from(keys.sort(), (key) => key % 2 ** 22);
}

function spread(bits) {
  let out = 0;
  for (let k = 0; k < 10; k++) out += ((bits >> k) & 1) * 4 ** k;
  return out;
}

export function facetsIn(layout, box) {
  const found = [];
  const { boxes } = layout;
  for (let f = 0, k = 0; k < boxes.length; f++, k += 4) {
    if (boxes[k] <= box[1] && boxes[k + 1] >= box[0] && boxes[k + 2] <= box[3] && boxes[k + 3] >= box[2]) found.push(f);
  }
  return found;
}
