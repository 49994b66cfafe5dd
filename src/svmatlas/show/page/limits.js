// Infinite costs: the limit of the models on the way there, as in models/limits.py, in doubles.
//
// From some size on the costs rest + t direction stay in one facet, where beta is constant. The facets at growing t are tried, and
// the first one whose limit satisfies the conditions of optimality is right.

import { INSIDE, MARGIN, OUTSIDE, facetState, firstPiece, pieceState } from "./atlas.js";
import { locate, NOWHERE } from "./locate.js";
import { mapsOf, rowOf } from "./maps.js";
import { alphaIn } from "./ties.js";

const STEPS = [8, 16, 24, 32, 40, 48, 64, 96, 128, 256]; // powers of two of large costs that are looked at
const FLAT = 2 ** -40; // a slope of alpha below this, relative to the largest, is zero
const VALID = 2 ** -30; // relative violation up to which a limit is right

const dot3 = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function wayTo(atlas, cPos, cNeg) {
  const direction = [cPos, cNeg].map((cost) => (cost === Infinity ? 1 : 0));
  const rest = [cPos, cNeg].map((cost) => (cost === Infinity ? 0 : cost * atlas.unit));
  const top = Math.max(...rest, 1);
  const stops = STEPS.map((step) => [...rest.map((value, k) => value / top + 2 ** step * direction[k]), 1 / top]);
  return { direction: [...direction, 0], rest: [...rest, 1], stops: stops.map(shrink) };
}

function shrink(c) {
  const top = Math.max(...c);
  return c.map((value) => value / top);
}

export function limitAt(atlas, cPos, cNeg) {
  const way = wayTo(atlas, cPos, cNeg);
  const seen = new Set();
  let best = null;
  for (const stop of way.stops) {
    const facet = locate(atlas, stop);
    if (facet === NOWHERE || seen.has(facet)) continue;
    seen.add(facet);
    for (const { state, maps } of mapsOfFacet(atlas, facet)) {
      const limit = limitIn(atlas, state, maps, way);
      if (!best || limit.gap < best.gap) best = { facet, ...limit };
      if (best.gap <= VALID) return best;
    }
  }
  return best;
}

// The maps of a facet; where ties cut it, of each of its triangles.
function mapsOfFacet(atlas, facet) {
  const piece = pieceState(atlas, firstPiece(atlas, facet));
  const maps = mapsOf(atlas, piece);
  const cut = atlas.cuts.get(facet);
  if (!cut) return [{ state: piece, maps }];
  const state = facetState(atlas, facet);
  return Array.from({ length: cut.count }, (_, k) => ({ state, maps: { ...maps, ...alphaIn(atlas, facet, k) } }));
}

const combine = (maps, k, c) => maps[0][k] * c[0] + maps[1][k] * c[1] + maps[2][k] * c[2];

// The limit in one partition; its gap is the largest relative violation.
function limitIn(atlas, state, maps, { direction, rest }) {
  const beta = Float64Array.from(maps.beta[0], (_, j) => combine(maps.beta, j, rest));
  const growth = Math.hypot(...maps.beta[0].map((_, j) => combine(maps.beta, j, direction)));
  const { slopes, wrong } = limitOfAlpha(atlas, state, maps, direction, rest);
  let mass = 0;
  const length = Math.sqrt(beta.reduce((sum, value) => sum + value * value, 0));
  let worst = wrong;
  for (let i = 0; i < state.length; i++) {
    const row = rowOf(atlas, i);
    const norm = Math.hypot(...row);
    if (state[i] === INSIDE) mass += atlas.weight[i] * direction[atlas.axis[i]] * norm;
    if (state[i] === MARGIN) continue;
    const lack = 1 - row.reduce((sum, value, j) => sum + value * beta[j], 0);
    worst = Math.max(worst, (state[i] === OUTSIDE ? lack : -lack) / (1 + norm * length));
  }
  if (mass > 0) worst = Math.max(worst, growth / mass);
  return { beta, share: slopes, gap: worst };
}

function limitOfAlpha(atlas, state, maps, direction, rest) {
  const sizeOf = (c) => Math.max(0, ...maps.members.map((_, k) => dot3([0, 1, 2].map((j) => Math.abs(maps.alpha[j][k])), c)));
  const slopeSize = sizeOf(direction) + Math.max(...atlas.weight);
  const restSize = sizeOf(rest);
  const shares = Float64Array.from(state, (s) => (s === INSIDE ? 1 : 0));
  let wrong = 0;
  maps.members.forEach((i, k) => {
    let slope = combine(maps.alpha, k, direction);
    if (Math.abs(slope) <= FLAT * slopeSize) slope = 0;
    const value = combine(maps.alpha, k, rest);
    const [capSlope, cap] = [atlas.weight[i] * direction[atlas.axis[i]], atlas.weight[i] * rest[atlas.axis[i]]];
    wrong = Math.max(wrong, -slope / slopeSize, (slope - capSlope) / slopeSize);
    if (slope === 0 && restSize > 0) wrong = Math.max(wrong, -value / restSize);
    if (slope >= (1 - FLAT) * capSlope && restSize > 0) wrong = Math.max(wrong, (value - cap) / restSize);
    shares[i] = capSlope > 0 ? slope / capSlope : cap > 0 ? value / cap : 0;
  });
  return { slopes: shares.map((value) => Math.min(1, Math.max(0, value))), wrong };
}
