// How often a model is right, for models that change a little from one to the next.
//
// A row whose decision value is v at some weights keeps its prediction at all weights no further from these than |v| / |row|, its reach.
// So all rows are looked at for one model, and for those close to it only the rows of less reach. The counts are those of scores.js.

import { dotAt } from "./margin.js";
import { UNDECIDED, scored } from "./scores.js";

const NEAR = 0.3; // share of the rows that are looked at for one model at most, before all are looked at again
const SLACK = 2 ** -40; // relative to the weights: more than the rounding of decision values, and than UNDECIDED

export class Tally {
  // ``other``: predictions to compare with, or null to count right ones of each class.
  constructor(atlas, other) {
    const rows = scored(atlas);
    const { rank } = atlas;
    Object.assign(this, { rank, other, count: rows.length, radius: -1, center: new Float64Array(rank) });
    this.rows = new Float64Array(rows.length * rank);
    rows.forEach(({ at, flip }, k) => this.rows.set(at.map((value) => flip * value), k * rank));
    this.signs = Int8Array.from(rows, ({ sign }) => sign);
    this.lengths = Float64Array.from(rows, (_, k) => this.lengthOf(this.rows, k * rank));
    this.totals = [-1, 1].map((sign) => this.signs.reduce((sum, one) => sum + (one === sign), 0));
  }

  lengthOf(vectors, at) {
    return Math.sqrt(dotAt(vectors, at, vectors, at, this.rank));
  }

  // Balanced accuracy, or the number of predictions unlike the others.
  of(beta) {
    this.length = (1 + SLACK) * this.lengthOf(beta, 0);
    let away = this.distance(beta);
    if (!(away <= this.radius)) {
      this.settle(beta);
      away = 0;
    }
    const { near, reach } = this;
    const far = away + SLACK * (away + this.length);
    const found = [0, 0];
    let k = 0;
    for (; k < near.length && reach[near[k]] <= far; k++) this.add(found, near[k], this.isPositive(near[k], beta));
    const [negative, positive] = [found[0] + this.sure[0][k], found[1] + this.sure[1][k]];
    return this.other ? negative + positive : (share(negative, this.totals[0]) + share(positive, this.totals[1])) / 2;
  }

  distance(beta) {
    let sum = 0;
    for (let j = 0; j < this.rank; j++) sum += (beta[j] - this.center[j]) ** 2;
    return Math.sqrt(sum);
  }

  // By class: right predictions, or those unlike the others.
  add(found, k, positive) {
    const isPositive = this.signs[k] > 0;
    if (this.other ? this.other[k] !== positive : isPositive === positive) found[isPositive ? 1 : 0]++;
  }

  // As predictions in scores.js.
  isPositive(k, beta) {
    const { rows, rank } = this;
    const at = k * rank;
    const value = dotAt(rows, at, beta, 0, rank);
    if (value <= 0) return false;
    if (value > UNDECIDED * this.lengths[k] * this.length) return true;
    let size = 0;
    for (let j = 0; j < rank; j++) size += Math.abs(rows[at + j] * beta[j]);
    return value > UNDECIDED * size;
  }

  // Look at all rows. Those near are sorted by reach; ``sure`` counts, by class, those of the k-th near one and of all further away.
  settle(beta) {
    const { rows, rank, count } = this;
    this.center.set(beta);
    const reach = new Float64Array(count);
    for (let k = 0; k < count; k++) reach[k] = Math.abs(dotAt(rows, k * rank, beta, 0, rank)) / this.lengths[k] || 0;
    const radius = reach.slice().sort()[Math.min(count - 1, Math.floor(NEAR * count))];
    const [near, found] = [[], [0, 0]];
    for (let k = 0; k < count; k++) {
      if (reach[k] <= radius) near.push(k);
      else this.add(found, k, this.isPositive(k, beta));
    }
    near.sort((a, b) => reach[a] - reach[b]);
    this.sure = found.map((all) => new Int32Array(near.length + 1).fill(all));
    for (let k = near.length - 1; k >= 0; k--) {
      this.add(found, near[k], this.isPositive(near[k], beta));
      this.sure.forEach((counts, c) => (counts[k] = found[c]));
    }
    Object.assign(this, { near, reach, radius: radius - SLACK * (radius + this.length) });
  }
}

const share = (right, all) => (all ? right / all : 0);
