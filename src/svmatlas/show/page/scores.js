// Predictions of a model on held-out rows (or, if the page has none, on the rows of the data) -> confusion matrix and scores.

import { dot } from "./maps.js";

export const UNDECIDED = 2 ** -44; // a decision value below this times the sizes of its terms is zero, see data/features.py
const DROPPED = -1;
const ZERO = -2;

export function isHeldOut(atlas) {
  return Boolean(atlas.testRows);
}

// The rows that are scored: coordinates by row, signs, and which of the user's rows they are.
export function scored(atlas) {
  if (!atlas.scored) atlas.scored = atlas.testRows ? testRows(atlas) : trainingRows(atlas);
  return atlas.scored;
}

function testRows(atlas) {
  const n = atlas.testSign.length;
  return Array.from({ length: n }, (_, k) => ({
    row: k,
    sign: atlas.testSign[k],
    flip: 1,
    at: atlas.testRows.subarray(k * atlas.rank, (k + 1) * atlas.rank),
  }));
}

// The engine's rows are signed: a decision value is the sign times the score.
function trainingRows(atlas) {
  const found = [];
  atlas.point.forEach((point, row) => {
    if (point === DROPPED) return;
    const at = point === ZERO ? new Float64Array(atlas.rank) : atlas.rows.subarray(point * atlas.rank, (point + 1) * atlas.rank);
    found.push({ row, sign: atlas.sign[row], flip: atlas.sign[row], at });
  });
  return found;
}

// Whether each of the rows is predicted positive; a decision value of zero is negative.
export function predictions(atlas, beta) {
  return scored(atlas).map(({ at, flip }) => {
    const value = flip * dot(at, beta);
    if (value === 0) return false;
    let size = 0;
    for (let j = 0; j < at.length; j++) size += Math.abs(at[j] * beta[j]);
    return value > UNDECIDED * size;
  });
}

export function confusion(atlas, positive) {
  const counts = { tn: 0, fp: 0, fn: 0, tp: 0 };
  scored(atlas).forEach(({ sign }, k) => {
    counts[sign > 0 ? (positive[k] ? "tp" : "fn") : positive[k] ? "fp" : "tn"]++;
  });
  return counts;
}

const ratio = (a, b) => (b ? a / b : 0);

export function scoresOf({ tn, fp, fn, tp }) {
  const [recall, specificity] = [ratio(tp, tp + fn), ratio(tn, tn + fp)];
  return {
    accuracy: ratio(tp + tn, tn + fp + fn + tp),
    balanced: (recall + specificity) / 2,
    recall,
    specificity,
    precision: ratio(tp, tp + fp),
    f1: ratio(2 * tp, 2 * tp + fn + fp),
  };
}

// Rows that two models predict differently, by their numbers.
export function differing(atlas, one, other) {
  return scored(atlas).filter((_, k) => one[k] !== other[k]).map(({ row }) => row);
}
