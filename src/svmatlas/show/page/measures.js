// What models are coloured by, from the margin of their piece (margin.js): the same numbers as those of maps.js, for one coefficient,
// one row or one place only, with |M| d operations.
//
// With P the projection onto what is orthogonal to the rows on the margin, a coefficient g.beta has the map
//     [ g.P b+ | g.P b- | (Q'g).(R^-T 1) ],   alpha of the k-th member the map   [ -z.Q'b+ | -z.Q'b- | z.R^-T 1 ],  z = R^-T e_k.

import { CANCELLED, betaAt, dot, mapsFrom } from "./maps.js";
import { coefMap } from "./solve.js";

const ROUGH = 1e5; // a condition of the rows on the margin from which on each piece is solved by itself, with a step of improvement

const sumOf = ({ high, low }) => high.map((value, j) => value + low[j]);

function wholeMaps(atlas, margin) {
  return mapsFrom(atlas, Array.from(margin.members.subarray(0, margin.size)), margin.pulls.map(sumOf));
}

const onesOf = (margin) => margin.solveLower(new Float64Array(margin.size).fill(1));

// What a vector of weights is multiplied by to give the j-th coefficient of the user, up to its scale.
export function coefficientVector(atlas, j) {
  const g = new Float64Array(atlas.rank);
  if (atlas.ownRows) g[j] = 2 ** atlas.exponent;
  else g.forEach((_, k) => (g[k] = atlas.coefOf[k * atlas.nFeatures + j]));
  return g.map((value) => value / (atlas.scale ? atlas.scale[j] : 1));
}

// The map (3 numbers) of the j-th coefficient, whose vector is g.
export function coefficientMap(atlas, margin, j, g) {
  if (margin.condition > ROUGH) return coefMap(atlas, wholeMaps(atlas, margin), j);
  const [ones, along] = [onesOf(margin), margin.along(g)];
  let [constant, size] = [0, 0];
  for (let k = 0; k < ones.length; k++) {
    constant += ones[k] * along[k];
    size += Math.abs(ones[k] * along[k]);
  }
  if (Math.abs(constant) <= CANCELLED * size) constant = 0;
  if (margin.size === atlas.trueRank) return [0, 0, constant];
  const left = margin.project(g.slice());
  return [...margin.pulls.map(({ high, low }) => dot(left, high) + dot(left, low)), constant];
}

// The map (3 numbers) of alpha of the member in a place.
export function alphaMap(atlas, margin, place) {
  if (margin.condition > ROUGH) return wholeMaps(atlas, margin).alpha.map((map) => map[place]);
  const unit = new Float64Array(margin.size);
  unit[place] = 1;
  const z = margin.solveLower(unit, place);
  return [...margin.pulls.map((pull) => -dot(z, margin.along(sumOf(pull)))), dot(z, onesOf(margin))];
}

// The weights at homogeneous costs.
export function weightsAt(atlas, margin, c) {
  if (margin.condition > ROUGH) return betaAt(atlas, wholeMaps(atlas, margin), c);
  const beta = new Float64Array(atlas.rank);
  if (margin.size < atlas.trueRank) {
    margin.pulls.forEach(({ high, low }, k) => {
      for (let j = 0; j < beta.length; j++) beta[j] += (c[k] / c[2]) * (high[j] + low[j]);
    });
    margin.project(beta);
  }
  const [ones, { rank }] = [onesOf(margin), atlas];
  for (let k = 0; k < margin.size; k++) for (let j = 0; j < rank; j++) beta[j] += ones[k] * margin.Q[k * rank + j];
  return beta;
}
