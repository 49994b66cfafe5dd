// The rows on the margin as X_M' = Q R, and the sums of the rows inside it, kept up to date while rows enter and leave.
//
// A row enters by Gram-Schmidt, twice, and leaves by rotations (Givens): a step to a neighbour costs |M| d, not |M|^2 d, and nothing is
// summed over all rows. The sums b+ and b- have twice the precision of doubles: what was added and is taken away leaves nothing.
// Q is stored by vectors, R by columns, the k-th of which has k + 1 entries.

import { INSIDE, MARGIN } from "./atlas.js";

const RENEW = 64; // steps after which Q and R are made anew, so that rounding does not add up
const columnAt = (k) => (k * (k + 1)) / 2;

export class Margin {
  constructor(atlas) {
    this.atlas = atlas;
    this.size = 0;
    this.steps = 0;
    this.members = new Int32Array(8);
    this.Q = new Float64Array(8 * atlas.rank);
    this.R = new Float64Array(columnAt(8));
    this.pulls = [0, 1].map(() => ({ high: new Float64Array(atlas.rank), low: new Float64Array(atlas.rank) }));
  }

  // A partition from nothing.
  begin(state) {
    for (let i = 0; i < state.length; i++) {
      if (state[i] === MARGIN) this.enter(i);
      if (state[i] === INSIDE) this.pull(i, 1);
    }
  }

  copy(other) {
    const { size, atlas } = other;
    this.reserve(size);
    this.size = size;
    this.steps = other.steps;
    this.members.set(other.members.subarray(0, size));
    this.Q.set(other.Q.subarray(0, size * atlas.rank));
    this.R.set(other.R.subarray(0, columnAt(size)));
    this.pulls.forEach((pull, k) => {
      pull.high.set(other.pulls[k].high);
      pull.low.set(other.pulls[k].low);
    });
  }

  reserve(size) {
    if (size <= this.members.length) return;
    const capacity = 2 * size;
    this.members = larger(this.members, capacity);
    this.Q = larger(this.Q, capacity * this.atlas.rank);
    this.R = larger(this.R, columnAt(capacity));
  }

  placeOf(i) {
    for (let k = 0; k < this.size; k++) if (this.members[k] === i) return k;
    return -1;
  }

  // Cross the edges of a child. Rows leave before others enter: those on the margin stay independent.
  cross(codeA, codeB) {
    const events = [];
    for (const code of [codeA, codeB]) if (code >= 0) this.note(events, code);
    for (const { i, enters } of events) if (!enters) this.leave(this.placeOf(i));
    for (const { i, enters } of events) if (enters) this.enter(i);
    if (++this.steps >= RENEW) this.renew();
  }

  // A row that passes from one side to the other at once enters and leaves: it does neither.
  note(events, code) {
    const i = code >> 1;
    const before = events.findIndex((event) => event.i === i);
    const enters = before >= 0 ? !events[before].enters : this.placeOf(i) < 0;
    if (code & 1) this.pull(i, enters ? -1 : 1);
    if (before >= 0) events.splice(before, 1);
    else events.push({ i, enters });
  }

  pull(i, factor) {
    const { rows, rank, weight, axis } = this.atlas;
    const { high, low } = this.pulls[axis[i]];
    const by = factor * weight[i];
    for (let j = 0, at = i * rank; j < rank; j++, at++) {
      const term = by * rows[at];
      const sum = high[j] + term;
      const t = sum - high[j];
      low[j] += high[j] - (sum - t) + (term - t);
      high[j] = sum;
    }
  }

  enter(i) {
    const { rows, rank } = this.atlas;
    const m = this.size;
    this.reserve(m + 1);
    const { Q, R } = this;
    const [own, column] = [m * rank, columnAt(m)];
    for (let j = 0; j < rank; j++) Q[own + j] = rows[i * rank + j];
    R.fill(0, column, column + m);
    for (let pass = 0; pass < 2; pass++) {
      for (let k = 0; k < m; k++) R[column + k] += takeAway(Q, k * rank, Q, own, rank);
    }
    const length = Math.sqrt(dotAt(Q, own, Q, own, rank));
    for (let j = 0; j < rank; j++) Q[own + j] /= length;
    R[column + m] = length;
    this.members[m] = i;
    this.size = m + 1;
  }

  // The columns of R behind the one that goes are moved up; a rotation takes away what they then have below the diagonal.
  leave(place) {
    const { Q, R, members } = this;
    const { rank } = this.atlas;
    const [cosines, sines] = [[], []];
    for (let c = place; c + 1 < this.size; c++) {
      const [from, to] = [columnAt(c + 1), columnAt(c)];
      for (let j = place; j < c; j++) {
        const [a, b] = [R[from + j], R[from + j + 1]];
        R[from + j] = cosines[j - place] * a + sines[j - place] * b;
        R[from + j + 1] = cosines[j - place] * b - sines[j - place] * a;
      }
      const length = Math.hypot(R[from + c], R[from + c + 1]);
      const [cosine, sine] = [R[from + c] / length, R[from + c + 1] / length];
      cosines.push(cosine);
      sines.push(sine);
      R[from + c] = length;
      R.copyWithin(to, from, from + c + 1);
      rotate(Q, c * rank, (c + 1) * rank, rank, cosine, sine);
      members[c] = members[c + 1];
    }
    this.size--;
  }

  renew() {
    const members = this.members.slice(0, this.size);
    this.size = 0;
    for (const i of members) this.enter(i);
    this.steps = 0;
  }

  // x with R' x = b, which has zeros before the entry ``first``.
  solveLower(b, first = 0) {
    const { R, size } = this;
    const x = new Float64Array(size);
    for (let k = first; k < size; k++) {
      const column = columnAt(k);
      let rest = b[k];
      for (let j = first; j < k; j++) rest -= R[column + j] * x[j];
      x[k] = rest / R[column + k];
    }
    return x;
  }

  // Q'v.
  along(v) {
    const { rank } = this.atlas;
    return Float64Array.from({ length: this.size }, (_, k) => dotAt(this.Q, k * rank, v, 0, rank));
  }

  // What is left of a vector without its part in the span of the rows on the margin, in place.
  project(v) {
    const { rank } = this.atlas;
    for (let pass = 0; pass < 2; pass++) for (let k = 0; k < this.size; k++) takeAway(this.Q, k * rank, v, 0, rank);
    return v;
  }

  // The ratio of the largest to the least entry on the diagonal of R: about the condition of X_M.
  get condition() {
    let [least, most] = [Infinity, 0];
    for (let k = 0; k < this.size; k++) {
      const entry = this.R[columnAt(k) + k];
      least = Math.min(least, entry);
      most = Math.max(most, entry);
    }
    return this.size ? most / least : 1;
  }
}

function larger(array, size) {
  const out = new array.constructor(size);
  out.set(array);
  return out;
}

export function dotAt(a, i, b, j, n) {
  let sum = 0;
  for (let k = 0; k < n; k++) sum += a[i + k] * b[j + k];
  return sum;
}

// Take the part along a vector q of length 1 away from v, and return its length.
function takeAway(q, i, v, j, n) {
  const share = dotAt(q, i, v, j, n);
  for (let k = 0; k < n; k++) v[j + k] -= share * q[i + k];
  return share;
}

function rotate(Q, i, j, n, cosine, sine) {
  for (let k = 0; k < n; k++) {
    const [a, b] = [Q[i + k], Q[j + k]];
    Q[i + k] = cosine * a + sine * b;
    Q[j + k] = cosine * b - sine * a;
  }
}
