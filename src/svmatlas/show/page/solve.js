// Costs -> the model there, with its duality gap: the facet that holds them, its partition, its maps (models/solve.py, models/gap.py).

import { INSIDE, facetState, firstPiece, homogeneous, pieceState } from "./atlas.js";
import { limitAt } from "./limits.js";
import { locate } from "./locate.js";
import { addTo, betaAt, dot, mapsOf, rowOf, zeros } from "./maps.js";
import { alphaIn, triangleAt } from "./ties.js";

const LIFT = 2 ** -50; // scores are lifted to 1 and this times sqrt(terms) times their length, see data/features.py
const SLIP = 2 ** -51; // rounding of a sum of rows, relative to their lengths, see models/gap.py

// Dual variables as shares of their bounds.
function sharesAt(atlas, state, maps, c) {
  const share = zeros(state.length);
  for (let i = 0; i < state.length; i++) share[i] = state[i] === INSIDE ? 1 : 0;
  maps.members.forEach((i, k) => {
    const bound = atlas.weight[i] * c[atlas.axis[i]];
    const value = (maps.alpha[0][k] * c[0] + maps.alpha[1][k] * c[1] + maps.alpha[2][k] * c[2]) / bound;
    share[i] = bound > 0 ? Math.min(1, Math.max(0, value || 0)) : 0;
  });
  return share;
}

function lift(atlas, state, beta) {
  let least = 1;
  for (let i = 0; i < state.length; i++) {
    if (state[i] === INSIDE) continue;
    const row = rowOf(atlas, i);
    let score = 0;
    let size = 0;
    for (let j = 0; j < row.length; j++) {
      const term = row[j] * beta[j];
      score += term;
      size += term * term;
    }
    least = Math.min(least, score - LIFT * Math.sqrt(beta.length) * Math.sqrt(size));
  }
  return 1 / Math.max(0.5, least);
}

function gapOf(atlas, share, beta, c) {
  const root = Math.sqrt(c[2]);
  const apart = beta.map((value) => root * value);
  let [loss, slack, slip] = [0, 0, 0];
  for (let i = 0; i < share.length; i++) {
    const row = rowOf(atlas, i);
    const bound = atlas.weight[i] * c[atlas.axis[i]];
    const held = share[i] * bound;
    const lack = 1 - dot(row, beta);
    addTo(apart, -held / root, row);
    slip += held * Math.sqrt(dot(row, row));
    loss += bound * Math.max(0, lack);
    slack += bound * Math.max(0, lack) - held * lack;
  }
  const rest = Math.max(0, Math.sqrt(dot(apart, apart)) - (SLIP * Math.sqrt(share.length) * slip) / root);
  const gap = (0.5 * rest * rest + slack) / Math.max(0.5 * c[2] * dot(beta, beta) + loss, 2 ** -1022);
  return Number.isNaN(gap) ? Infinity : gap;
}

// The maps of a facet at homogeneous costs, and the partition that they are of.
export function mapsIn(atlas, facet, c) {
  const state = pieceState(atlas, firstPiece(atlas, facet));
  const maps = mapsOf(atlas, state);
  if (!atlas.cuts.has(facet)) return { state, maps };
  return { state: facetState(atlas, facet), maps: { ...maps, ...alphaIn(atlas, facet, triangleAt(atlas, facet, c)) } };
}

export function solveInFacet(atlas, facet, c) {
  const { state, maps } = mapsIn(atlas, facet, c);
  const share = sharesAt(atlas, state, maps, c);
  const beta = betaAt(atlas, maps, c);
  const factorUp = lift(atlas, state, beta);
  const lifted = beta.map((value) => value * factorUp);
  return { share, beta: lifted, gap: gapOf(atlas, share, lifted, c) };
}

// The weights of the user's columns; coef is null where the page does not hold what they are made of.
export function weightsOf(atlas, beta) {
  let [coef, intercept] = [null, 0];
  if (atlas.ownRows) {
    coef = beta.subarray(0, atlas.nFeatures).map((value) => value * 2 ** atlas.exponent);
    intercept = atlas.bias ? beta[atlas.nFeatures] * 2 ** atlas.exponent * atlas.bias : 0;
  } else {
    intercept = dot(atlas.interceptOf, beta);
    if (atlas.coefOf) {
      coef = zeros(atlas.nFeatures);
      for (let k = 0; k < beta.length; k++) addTo(coef, beta[k], atlas.coefOf.subarray(k * coef.length, (k + 1) * coef.length));
    }
  }
  if (coef && atlas.scale) coef = coef.map((value, j) => value / atlas.scale[j]);
  if (atlas.center) intercept = coef ? intercept - dot(coef, atlas.center) : null;
  return { coef, intercept };
}

// The map (3 numbers) of one coefficient.
export function coefMap(atlas, maps, j) {
  const of = (beta) => {
    if (atlas.ownRows) return beta[j] * 2 ** atlas.exponent;
    let sum = 0;
    for (let k = 0; k < beta.length; k++) sum += beta[k] * atlas.coefOf[k * atlas.nFeatures + j];
    return sum;
  };
  return maps.beta.map((beta) => of(beta) / (atlas.scale ? atlas.scale[j] : 1));
}

export function inRegion(atlas, cPos, cNeg) {
  const [[a, b], [c, d]] = atlas.region;
  return cPos >= a && cPos <= (b ?? Infinity) && cNeg >= c && cNeg <= (d ?? Infinity);
}

// Everything about the model at a pair of costs, or null where the page does not know it.
export function modelAt(atlas, cPos, cNeg) {
  if (!(cPos >= 0 && cNeg >= 0) || !inRegion(atlas, cPos, cNeg)) return null;
  const finite = Number.isFinite(cPos) && Number.isFinite(cNeg);
  const found = finite ? atCosts(atlas, homogeneous(atlas, cPos, cNeg)) : limitAt(atlas, cPos, cNeg);
  if (!found) return null;
  const state = facetState(atlas, found.facet);
  const number = atlas.number ? atlas.number[found.facet] : found.facet;
  return { cPos, cNeg, ...found, number, state, ...weightsOf(atlas, found.beta) };
}

function atCosts(atlas, c) {
  const facet = locate(atlas, c);
  return facet < 0 ? null : { facet, ...solveInFacet(atlas, facet, c) };
}
