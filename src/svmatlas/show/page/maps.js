// A partition -> its affine maps of alpha and beta, as engine/maps.py, in doubles.
//
// X_M' = Q R by modified Gram-Schmidt, each vector twice. With b+ and b- the weighted sums of the rows inside the margin,
//     A_M  = [ -R^-1 Q'b+ | -R^-1 Q'b- | R^-1 R^-T 1 ],      Beta = [ b+ - QQ'b+ | b- - QQ'b- | Q R^-T 1 ],
// and alpha = A_M (p, q, l)', beta = Beta (p, q, l)' / l. If M has full rank, the first two columns of Beta are zero exactly.

import { INSIDE, MARGIN } from "./atlas.js";
import { dotMinus } from "./doubles.js";

export const CANCELLED = 2 ** -50; // a weight below this times the size of its three terms is zero

export const zeros = (n) => new Float64Array(n);

export function dot(a, b) {
  let sum = 0;
  for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
  return sum;
}

export function addTo(target, factor, source) {
  for (let j = 0; j < target.length; j++) target[j] += factor * source[j];
}

export function rowOf(atlas, i) {
  return atlas.rows.subarray(i * atlas.rank, (i + 1) * atlas.rank);
}

// Q as a list of vectors, R by columns.
function factor(rows) {
  const Q = [];
  const R = [];
  for (const row of rows) {
    const q = Float64Array.from(row);
    const r = zeros(Q.length + 1);
    for (let pass = 0; pass < 2; pass++) {
      for (let k = 0; k < Q.length; k++) {
        const s = dot(Q[k], q);
        r[k] += s;
        addTo(q, -s, Q[k]);
      }
    }
    const length = Math.sqrt(dot(q, q));
    r[Q.length] = length;
    Q.push(q.map((value) => value / length));
    R.push(r);
  }
  return { Q, R };
}

// x with R x = b.
function solveUpper(R, b) {
  const x = Float64Array.from(b);
  for (let k = R.length - 1; k >= 0; k--) {
    x[k] /= R[k][k];
    for (let j = 0; j < k; j++) x[j] -= R[k][j] * x[k];
  }
  return x;
}

// x with R' x = b.
function solveLower(R, b) {
  const x = Float64Array.from(b);
  for (let k = 0; k < R.length; k++) {
    for (let j = 0; j < k; j++) x[k] -= R[k][j] * x[j];
    x[k] /= R[k][k];
  }
  return x;
}

function pulls(atlas, state) {
  const pull = [zeros(atlas.rank), zeros(atlas.rank)];
  for (let i = 0; i < state.length; i++) if (state[i] === INSIDE) addTo(pull[atlas.axis[i]], atlas.weight[i], rowOf(atlas, i));
  return pull;
}

// A solution of X_M beta = target, improved once by what is left of it in twice the precision: columns of very different scale.
function refined(rows, Q, R, beta, target) {
  const left = solveLower(R, rows.map((row) => dotMinus(row, beta, target))); // prettier-ignore
  Q.forEach((q, k) => addTo(beta, -left[k], q));
  return beta;
}

// The affine maps of a partition whose margin is independent: members of M, alpha (3 x |M|), beta (3 x rank).
export function mapsOf(atlas, state) {
  const members = [];
  for (let i = 0; i < state.length; i++) if (state[i] === MARGIN) members.push(i);
  return mapsFrom(atlas, members, pulls(atlas, state));
}

// The same from its members, and b+ and b-, which are changed.
export function mapsFrom(atlas, members, pulls) {
  const rows = members.map((i) => rowOf(atlas, i));
  const { Q, R } = factor(rows);
  const alpha = [];
  const beta = [];
  for (const pull of pulls) {
    const along = zeros(Q.length);
    for (let pass = 0; pass < 2; pass++) {
      for (let k = 0; k < Q.length; k++) {
        const s = dot(Q[k], pull);
        along[k] += s;
        addTo(pull, -s, Q[k]);
      }
    }
    alpha.push(solveUpper(R, along).map((value) => -value));
    beta.push(members.length === atlas.trueRank ? zeros(atlas.rank) : refined(rows, Q, R, pull, 0));
  }
  const ones = solveLower(R, zeros(Q.length).fill(1));
  const constant = zeros(atlas.rank);
  Q.forEach((q, k) => addTo(constant, ones[k], q));
  alpha.push(solveUpper(R, ones));
  beta.push(withoutRounding(refined(rows, Q, R, constant, 1), Q, ones));
  return { members, alpha, beta };
}

// A sum of terms shares[k] Q[k] that is no more than their rounding is zero.
function withoutRounding(sum, Q, shares) {
  return sum.map((value, j) => {
    const size = Q.reduce((total, q, k) => total + Math.abs(shares[k] * q[j]), 0);
    return Math.abs(value) <= CANCELLED * size ? 0 : value;
  });
}

export function betaAt(atlas, maps, c) {
  const beta = zeros(atlas.rank);
  for (let j = 0; j < beta.length; j++) {
    const terms = [0, 1, 2].map((k) => (maps.beta[k][j] * c[k]) / c[2]);
    const sum = terms[0] + terms[1] + terms[2];
    const size = Math.abs(terms[0]) + Math.abs(terms[1]) + Math.abs(terms[2]);
    beta[j] = Math.abs(sum) <= CANCELLED * size ? 0 : sum;
  }
  return beta;
}
