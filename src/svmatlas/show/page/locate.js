// Costs -> the facet that holds them: a walk through the rings, as in engine/locate.py and with the same arithmetic.
//
// A facet is left by the edge that the point is furthest beyond. Of several facets that hold a point on an edge or a vertex it is
// the one with the lowest number.

import { neighboursOf } from "./atlas.js";
import { differenceOfProducts } from "./doubles.js";

export const NOWHERE = -1;
const ROUNDING = 2 ** -44; // a point is beyond an edge if its relative distance is below minus this
const SHORT = 2 ** -34; // relative length of an edge that may be there by the jitter only
const SLACK = 2 ** -30; // how far beyond an edge a point may be when all facets are tried: corners are good to 2e-10
const CELLS = 64; // of the grid of places where walks begin, on each side

// Distance of c from the edge between vertices v and w, negative beyond it, relative to the costs; infinite for short edges.
function beyond({ vertexP: P, vertexQ: Q, vertexL: L }, v, w, c) {
  const a0 = P[v], a1 = Q[v], a2 = L[v], b0 = P[w], b1 = Q[w], b2 = L[w]; // prettier-ignore
  const x = a1 * b2, y = a2 * b0, z = a0 * b1, u = a2 * b1, s = a0 * b2, t = a1 * b0; // prettier-ignore
  let length = 0;
  if (x + u > 0) length = Math.abs(x - u) / (x + u);
  if (y + s > 0) length = Math.max(length, Math.abs(y - s) / (y + s));
  if (z + t > 0) length = Math.max(length, Math.abs(z - t) / (z + t));
  const size = (x + u) * c[0] + (y + s) * c[1] + (z + t) * c[2];
  if (length < SHORT || size === 0) return Infinity;
  let det = differenceOfProducts(a1, b2, a2, b1) * c[0];
  det += differenceOfProducts(a2, b0, a0, b2) * c[1];
  det += differenceOfProducts(a0, b1, a1, b0) * c[2];
  return det / (size * length);
}

function worstEdge(atlas, f, c) {
  const { at, corners } = atlas;
  let worst = Infinity;
  let place = -1;
  let before = corners[at[f + 1] - 1];
  for (let k = at[f]; k < at[f + 1]; k++) {
    const depth = beyond(atlas, before, corners[k], c);
    if (depth < worst) {
      worst = depth;
      place = k;
    }
    before = corners[k];
  }
  return [place, worst];
}

function lowest(atlas, first, c) {
  const { at, corners } = atlas;
  const neighbour = neighboursOf(atlas);
  const held = [first];
  let least = first;
  for (let k = 0; k < held.length; k++) {
    const g = held[k];
    let before = corners[at[g + 1] - 1];
    for (let place = at[g]; place < at[g + 1]; place++) {
      const depth = beyond(atlas, before, corners[place], c);
      before = corners[place];
      const h = neighbour[place];
      if (h < 0 || Math.abs(depth) > ROUNDING || held.includes(h)) continue;
      const [, worst] = worstEdge(atlas, h, c);
      if (worst < -ROUNDING) continue;
      held.push(h);
      if (h < least && worst < Infinity) least = h;
    }
  }
  return least;
}

function walk(atlas, start, c) {
  const neighbour = neighboursOf(atlas);
  const limit = 64 + 8 * Math.floor(Math.sqrt(atlas.at.length));
  let f = start;
  for (let step = 0; step < limit; step++) {
    const [place, depth] = worstEdge(atlas, f, c);
    if (depth >= -ROUNDING) {
      if (depth === Infinity) return NOWHERE;
      return depth <= ROUNDING ? lowest(atlas, f, c) : f;
    }
    f = neighbour[place];
    if (f < 0) return NOWHERE;
  }
  return NOWHERE;
}

function tryAll(atlas, c) {
  let best = NOWHERE;
  let deepest = -Infinity;
  for (let f = 0; f < atlas.nFacets; f++) {
    const [, depth] = worstEdge(atlas, f, c);
    if (depth > deepest && depth < Infinity) {
      best = f;
      deepest = depth;
    }
  }
  return deepest >= -SLACK ? best : NOWHERE;
}

// Where walks begin: a facet for each cell of a grid on p / (p + l) and q / (q + l).
function startsOf(atlas) {
  const starts = new Int32Array(CELLS * CELLS).fill(NOWHERE);
  for (let f = 0; f < atlas.nFacets; f++) {
    const v = atlas.corners[atlas.at[f]];
    starts[cellOf(atlas.vertexP[v], atlas.vertexQ[v], atlas.vertexL[v])] = f;
  }
  let last = 0;
  return starts.map((f) => (last = f < 0 ? last : f));
}

function cellOf(p, q, l) {
  const x = Math.min(CELLS - 1, Math.floor((CELLS * p) / (p + l || 1)));
  const y = Math.min(CELLS - 1, Math.floor((CELLS * q) / (q + l || 1)));
  return CELLS * y + x;
}

// The place of a facet in the page's arrays at homogeneous costs; NOWHERE if none holds them.
export function locate(atlas, c) {
  if (!atlas.nFacets) return NOWHERE;
  if (!atlas.starts) atlas.starts = startsOf(atlas);
  const found = walk(atlas, atlas.starts[cellOf(...c)], c);
  return found === NOWHERE ? tryAll(atlas, c) : found;
}
