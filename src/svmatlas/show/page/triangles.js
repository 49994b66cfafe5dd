// Facets -> triangles for the graphics card, on the places of a scale.
//
// Edges are straight in homogeneous costs, and a logarithmic scale bends them. So triangles are split at the middles of edges that
// are bent by more than a tolerance; whether an edge is split depends on it alone, so that no gaps open between neighbours.
// A place is stored as the sum of two single-precision numbers: relative to the middle of the view it has some 48 bits.

import { clip, halfPlanes, middleOf, placeOf } from "./plane.js";
import { cornersOf } from "./ties.js";

const DEEPEST = 48; // splits in a row: a guard only, each one makes an edge a quarter as bent
const SMALL = 0.05; // decades: in a facet no wider than this slopes hardly change,
const BENT = 0.82; // so that an edge of d decades is bent by at most this times d^2 (|y''| <= ln 10 |s (1 - s)|, slope |s| <= 1.26)

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
    array[size] = x;
    array[size + 1] = x - array[size];
    array[size + 2] = y;
    array[size + 3] = y - array[size + 2];
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

// Places of all vertices, which may be infinite, and the box of each facet on the plane.
export function layOut(atlas, scale) {
  const n = atlas.vertexP.length;
  const [x, y] = [new Float64Array(n), new Float64Array(n)];
  for (let v = 0; v < n; v++) [x[v], y[v]] = placeOf(scale, atlas.vertexP[v] / atlas.unit, atlas.vertexQ[v] / atlas.unit, atlas.vertexL[v]);
  return { x, y, boxes: boxesOf(atlas, x, y) };
}

function boxesOf(atlas, x, y) {
  const boxes = new Float64Array(4 * atlas.nFacets); // at any zoom it is known what is in view
  for (let f = 0; f < atlas.nFacets; f++) {
    putRange(boxes, 4 * f, x, atlas, f);
    putRange(boxes, 4 * f + 2, y, atlas, f);
  }
  return boxes;
}

// The least and the largest place of the corners of a facet. A cost of 0/0, in a corner of infinity, may be anything.
function putRange(boxes, k, places, { at, corners }, f) {
  boxes[k] = Infinity;
  boxes[k + 1] = -Infinity;
  for (let j = at[f]; j < at[f + 1]; j++) {
    const place = places[corners[j]];
    if (!(place >= boxes[k])) boxes[k] = Number.isNaN(place) ? -Infinity : place;
    if (!(place <= boxes[k + 1])) boxes[k + 1] = Number.isNaN(place) ? Infinity : place;
  }
}

// The ring of a facet in the user's homogeneous costs, as far as it lies in some half planes.
export function ringOf(atlas, planes, f) {
  const ring = [];
  for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
    const v = atlas.corners[k];
    ring.push([atlas.vertexP[v] / atlas.unit, atlas.vertexQ[v] / atlas.unit, atlas.vertexL[v]]);
  }
  return clipped(ring, planes);
}

function clipped(ring, planes) {
  return planes.reduce((left, h) => (left.length ? clip(left, h) : left), ring);
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

// What is drawn: the facets inside a box of places, bent by no more than a tolerance.
function addFacet(out, atlas, f, how) {
  const { scale, layout, box, planes, tolerance } = how;
  const cut = atlas.cuts.size && atlas.cuts.get(f);
  if (cut) return addParts(out, atlas, f, cut, how);
  const [b, k] = [layout.boxes, 4 * f];
  const wide = Math.max(b[k + 1] - b[k], b[k + 3] - b[k + 2]);
  const flat = scale.name !== "log" || (wide < SMALL && BENT * wide * wide < tolerance);
  const within = !planes.length || (b[k] >= box[0] && b[k + 1] <= box[1] && b[k + 2] >= box[2] && b[k + 3] <= box[3]);
  if (flat && within) return addFan(out, atlas, layout, f);
  return addRing(out, ringOf(atlas, planes, f), f, scale, flat ? Infinity : tolerance);
}

function addRing(out, ring, id, scale, tolerance) {
  const corners = ring.map((c) => cornerOf(scale, c));
  for (let k = 1; k + 1 < corners.length; k++) {
    if (tolerance === Infinity) out.add(corners[0], corners[k], corners[k + 1], id);
    else split(out, corners[0], corners[k], corners[k + 1], id, tolerance, DEEPEST);
  }
}

// A facet that ties cut: triangles with numbers of their own, since alpha has another map in each (ties.js).
function addParts(out, atlas, f, { first, count }, { scale, planes, tolerance }) {
  for (let k = 0; k < count; k++) {
    const ring = cornersOf(atlas, f, k).map(([p, q, l]) => [p / atlas.unit, q / atlas.unit, l]);
    addRing(out, clipped(ring, planes), first + k, scale, scale.name === "log" ? tolerance : Infinity);
  }
}

// Most facets: all corners are drawn, and no edge is bent.
function addFan(out, { at, corners }, { x, y }, f) {
  const n = at[f + 1] - at[f];
  out.places.reserve(12 * n);
  out.facets.reserve(3 * n);
  const { places: { array }, facets } = out; // prettier-ignore
  let { size } = out.places;
  for (let k = at[f] + 1; k + 1 < at[f + 1]; k++) {
    for (let j = 0; j < 3; j++, size += 4) {
      const v = corners[j === 0 ? at[f] : k + j - 1];
      array[size] = x[v];
      array[size + 1] = x[v] - array[size];
      array[size + 2] = y[v];
      array[size + 3] = y[v] - array[size + 2];
    }
  }
  const count = 3 * Math.max(0, n - 2);
  facets.array.fill(f, facets.size, facets.size + count);
  facets.size += count;
  out.places.size = size;
}

// The triangles of some facets, and where those of each begin (in corners).
export function triangulate(atlas, facets, { scale, layout, box, tolerance }) {
  const out = new Triangles(3 * facets.length);
  const starts = new Uint32Array(facets.length + 1);
  const how = { scale, layout, box, tolerance, planes: halfPlanes(scale, box) };
  for (let k = 0; k < facets.length; k++) {
    addFacet(out, atlas, facets[k], how);
    starts[k + 1] = out.facets.size;
  }
  return { places: out.places.used, facets: out.facets.used, starts };
}

// All facets along a curve that keeps neighbours together, so that few stretches of them are in view.
export function alongCurve({ at, corners, nFacets: n }, layout, box) {
  const keys = new Float64Array(n);
  const spreads = Array.from({ length: 1024 }, (_, bits) => spread(bits));
  const place = (value, low, high) => Math.max(0, Math.min(1023, Math.floor((1024 * (value - low)) / (high - low)))) || 0;
  for (let f = 0; f < n; f++) {
    const x = place(layout.x[corners[at[f]]], box[0], box[1]);
    const y = place(layout.y[corners[at[f]]], box[2], box[3]);
    keys[f] = (spreads[x] + 2 * spreads[y]) * 4194304 + f;
  }
  return Uint32Array.from(keys.sort(), (key) => key % 4194304);
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

// Those of some facets whose box holds the middle of a pixel; pixels begin at the corner of a box and are a step wide.
export function onPixels({ boxes }, facets, [left, , low], step) {
  const holds = (from, to, origin) => Math.floor((to - origin) / step - 0.5) >= Math.ceil((from - origin) / step - 0.5);
  return facets.filter((f) => holds(boxes[4 * f], boxes[4 * f + 1], left) && holds(boxes[4 * f + 2], boxes[4 * f + 3], low));
}

// Some facets with the largest boxes.
export function largest({ boxes }, facets, count) {
  if (facets.length <= count) return facets;
  const areaOf = (f) => (boxes[4 * f + 1] - boxes[4 * f]) * (boxes[4 * f + 3] - boxes[4 * f + 2]);
  const areas = Float64Array.from(facets, areaOf).sort();
  const least = areas[areas.length - count];
  return facets.filter((f) => areaOf(f) >= least);
}
