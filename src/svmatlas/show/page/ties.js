// Alpha where ties cut a facet into pieces. It is not unique there; the page holds a valid one at each corner of the facet.
//
// A facet is cut into the triangles of its corners 0, k + 1, k + 2, and alpha is interpolated in them. It stays valid: all conditions
// (its bounds, and that it adds up to beta) are linear in the costs and alpha together, and beta is affine in all of the facet.

import { MARGIN, facetState } from "./atlas.js";
import { differenceOfProducts } from "./doubles.js";

const cross = (a, b) => [
  differenceOfProducts(a[1], b[2], a[2], b[1]),
  differenceOfProducts(a[2], b[0], a[0], b[2]),
  differenceOfProducts(a[0], b[1], a[1], b[0]),
];
const dot3 = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

export function cornersOf(atlas, facet, k) {
  const { at, corners, vertexP: P, vertexQ: Q, vertexL: L } = atlas;
  return [0, k + 1, k + 2].map((j) => corners[at[facet] + j]).map((v) => [P[v], Q[v], L[v]]);
}

// The share of each corner of a triangle in homogeneous costs c is h.c with one of these h.
function sharesOf(atlas, facet, k) {
  const [a, b, c] = cornersOf(atlas, facet, k);
  const sides = [cross(b, c), cross(c, a), cross(a, b)];
  const whole = dot3(a, sides[0]);
  return sides.map((side) => side.map((value) => value / whole));
}

function depthIn(atlas, facet, k, c) {
  const shares = sharesOf(atlas, facet, k).map((h) => dot3(h, c));
  const sum = shares.reduce((total, value) => total + Math.abs(value), 0);
  return Number.isFinite(sum) && sum > 0 ? Math.min(...shares) / sum : -Infinity;
}

// The triangle of a facet that holds homogeneous costs.
export function triangleAt(atlas, facet, c) {
  const { count } = atlas.cuts.get(facet);
  let [best, deepest] = [0, -Infinity];
  for (let k = 0; k < count; k++) {
    const depth = depthIn(atlas, facet, k, c);
    if (depth > deepest) [best, deepest] = [k, depth];
  }
  return best;
}

function membersOfFacet(atlas, facet) {
  const state = facetState(atlas, facet);
  return Array.from(state.keys()).filter((i) => state[i] === MARGIN);
}

// The affine map of alpha in a triangle: points on the margin, and three numbers for each.
export function alphaIn(atlas, facet, k, members = membersOfFacet(atlas, facet)) {
  const { at, size } = atlas.cuts.get(facet);
  const shares = sharesOf(atlas, facet, k);
  const alpha = [0, 1, 2].map((axis) => {
    const map = new Float64Array(size);
    [0, k + 1, k + 2].forEach((corner, j) => {
      const share = shares[j][axis];
      for (let i = 0; i < size; i++) map[i] += share * atlas.cutAlpha[at + corner * size + i];
    });
    return map;
  });
  return { members, alpha };
}
