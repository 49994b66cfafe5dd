// What facets are coloured by: a value for each facet, or an affine map of the costs.
//
// Sizes of sets and layers are known at once. Values that need models are computed facet by facet, in short turns between frames,
// the largest facets in view first; facets that were not reached yet are grey.

import { INSIDE, MARGIN, firstPiece, pieceState, sizesOfSets } from "./atlas.js";
import { WIDE } from "./draw.js";
import { betaAt, mapsOf } from "./maps.js";
import { confusion, differing, isHeldOut, predictions, scoresOf } from "./scores.js";
import { coefMap } from "./solve.js";
import { alphaIn } from "./ties.js";

const KNOWN_MAP = 1;
const KNOWN_VALUE = 2;
const USUAL = 0.98; // of the facets have a colour of their own,
const FAR = 2; // if the others reach beyond their range by this factor
const NOTHING = [Infinity, -Infinity]; // a range of no values
const TO_COSTS = 2; // the axis that a value is divided by: l

export function quantities(atlas) {
  const rows = isHeldOut(atlas) ? "held-out rows" : "training rows";
  const list = [];
  if (atlas.nFacets || atlas.pictures) {
    list.push(
      { id: "margin", label: "rows on the margin", table: "size" },
      { id: "support", label: "support vectors", table: "size" },
      { id: "layer", label: "layer", table: "size" },
    );
  }
  if (atlas.nFacets) {
    list.push(
      { id: "parity", label: "layers, odd and even", table: "two" },
      { id: "score", label: `balanced accuracy, ${rows}`, table: "size", needsModels: true },
      { id: "disagree", label: `predictions unlike pin A, ${rows}`, table: "size", needsModels: true },
      { id: "alpha", label: "alpha of the chosen row, share of its bound", table: "size", needsModels: true },
    );
    if (atlas.ownRows || atlas.coefOf) {
      const coefficient = (name, j) => ({ id: `coef:${j}`, label: `coefficient of ${name}`, table: "sign", needsModels: true });
      atlas.names.forEach((name, j) => list.push(coefficient(name, j)));
    }
  }
  if (atlas.selection) list.push({ id: "selection", label: "cross-validated score", table: "size", picture: true });
  return list;
}

// The range of most values, of which some are given in ascending order. Where a whole class is on the margin there are hundreds of
// rows, elsewhere a few: the last colour is for all that are far beyond most.
export function usualRange(sorted) {
  const [low, usual, high] = [0, USUAL, 1].map((share) => sorted[Math.floor(share * (sorted.length - 1))]);
  return [low, high - low > FAR * (usual - low) ? usual : high];
}

function valueOfFacets(atlas, id) {
  if (id === "layer") return atlas.layer;
  if (id === "parity") return atlas.layer.map((layer) => layer & 1);
  if (!atlas.setSizes) atlas.setSizes = setSizes(atlas);
  const { margin, inside } = atlas.setSizes;
  return id === "margin" ? margin : margin.map((count, f) => count + inside[f]);
}

// By facet; where rows are tied, more of them are on the margin than in the piece.
function setSizes(atlas) {
  const pieces = sizesOfSets(atlas);
  if (!atlas.piece) return pieces;
  const margin = Int32Array.from(atlas.piece, (piece) => pieces.margin[piece]);
  const inside = Int32Array.from(atlas.piece, (piece) => pieces.inside[piece]);
  for (let f = 0; f < atlas.nFacets; f++) {
    if (atlas.tiedAt[f] === atlas.tiedAt[f + 1]) continue;
    const state = pieceState(atlas, atlas.piece[f]);
    for (let k = atlas.tiedAt[f]; k < atlas.tiedAt[f + 1]; k++) {
      const i = atlas.tied[k];
      if (state[i] !== MARGIN) margin[f] += atlas.rowsOfPoint[i];
      if (state[i] === INSIDE) inside[f] -= atlas.rowsOfPoint[i];
    }
  }
  return { margin, inside };
}

// Mean of the corners of a facet, homogeneous.
export function middleOfFacet(atlas, f) {
  const c = [0, 0, 0];
  for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
    const v = atlas.corners[k];
    const sum = atlas.vertexP[v] + atlas.vertexQ[v] + atlas.vertexL[v];
    c[0] += atlas.vertexP[v] / sum;
    c[1] += atlas.vertexQ[v] / sum;
    c[2] += atlas.vertexL[v] / sum;
  }
  return c;
}

export class Values {
  constructor(atlas, painter) {
    this.atlas = atlas;
    this.painter = painter;
    this.values = new Float32Array(4 * WIDE * painter.height);
    this.range = [0, 1];
    this.axis = TO_COSTS;
    this.done = 0;
    this.queue = [];
  }

  // Begin with a quantity; ``context``: the chosen row, and the predictions of pin A.
  choose(quantity, context) {
    this.quantity = quantity;
    this.context = context;
    this.values.fill(0);
    this.axis = TO_COSTS;
    this.done = 0;
    this.queue = [];
    this.beyond = false;
    if (quantity.picture) return;
    if (quantity.needsModels) this.range = quantity.id === "alpha" ? [0, 1] : NOTHING;
    else this.fill(valueOfFacets(this.atlas, quantity.id));
    if (quantity.id === "alpha") this.axis = this.atlas.axis[this.pointOfRow()] ?? TO_COSTS;
    this.painter.setValues(this.values);
  }

  pointOfRow() {
    return this.atlas.point[this.context.row];
  }

  fill(found) {
    for (let f = 0; f < found.length; f++) {
      this.values[4 * f + 2] = found[f];
      this.values[4 * f + 3] = KNOWN_VALUE;
      if (this.atlas.cuts.has(f)) this.put(f, [0, 0, found[f], KNOWN_VALUE]);
    }
    const sorted = found.slice().sort();
    this.range = sorted.length ? usualRange(sorted) : NOTHING;
    this.beyond = sorted.at(-1) > this.range[1];
  }

  // Facets to compute next, in order; those that are known are passed over. ``seenOf`` gives costs in the middle of what is seen of one.
  ask(facets, seenOf) {
    this.seenOf = seenOf;
    if (!this.quantity?.needsModels) return;
    this.queue = facets.filter((f) => this.values[4 * f + 3] === 0).reverse();
    if (this.quantity.id !== "alpha") this.fitRange(facets.filter((f) => this.values[4 * f + 3] !== 0));
  }

  // Colours are for what is in view: far out coefficients may be a hundred times as large.
  fitRange(known) {
    this.range = NOTHING;
    for (const f of known) this.widen(f);
    this.done = known.length;
  }

  widen(f) {
    const value = this.valueInView(f);
    if (!Number.isFinite(value)) return;
    const [low, high] = this.quantity.table === "sign" ? [-Math.abs(value), Math.abs(value)] : [value, value];
    this.range = [Math.min(this.range[0], low), Math.max(this.range[1], high)];
  }

  // In the middle of what is seen of a facet: it may reach far out, to values that are not in view.
  valueInView(f) {
    const [p, q, l, known] = this.values.subarray(4 * f, 4 * f + 4);
    if (known === KNOWN_VALUE) return l;
    const c = this.seenOf(f);
    return c ? (p * c[0] + q * c[1]) / c[2] + l : NaN;
  }

  // The values that the colours are for.
  get shown() {
    return this.range[0] <= this.range[1] ? this.range : [0, 0];
  }

  get pending() {
    return this.queue.length > 0;
  }

  // Work for so many milliseconds.
  work(milliseconds) {
    const end = performance.now() + milliseconds;
    let [first, last] = [Infinity, -1];
    while (this.queue.length && performance.now() < end) {
      const f = this.queue.pop();
      this.compute(f);
      this.done++;
      for (const id of this.drawnAs(f)) {
        const row = Math.floor(id / WIDE);
        first = Math.min(first, row);
        last = Math.max(last, row + 1);
      }
    }
    if (last > 0) this.painter.setValues(this.values, first, last);
  }

  // The numbers that a facet is drawn with: its own, and where ties cut it those of its triangles.
  drawnAs(f) {
    const cut = this.atlas.cuts.get(f);
    return cut ? [f, cut.first, cut.first + cut.count - 1] : [f];
  }

  put(f, four) {
    this.values.set(four, 4 * f);
    const cut = this.atlas.cuts.get(f);
    for (let k = 0; cut && k < cut.count; k++) this.values.set(four, 4 * (cut.first + k));
  }

  compute(f) {
    const { id } = this.quantity;
    if (id === "alpha") return this.computeAlpha(f);
    const { atlas } = this;
    const maps = mapsOf(atlas, pieceState(atlas, firstPiece(atlas, f)));
    if (id.startsWith("coef:")) return this.setMap(f, coefMap(atlas, maps, Number(id.slice(5))));
    const c = middleOfFacet(atlas, f);
    if (!(c[2] > 0)) return undefined;
    const positive = predictions(atlas, betaAt(atlas, maps, c));
    const value = id === "score"
      ? scoresOf(confusion(atlas, positive)).balanced
      : differing(atlas, positive, this.context.predictions || positive).length; // prettier-ignore
    return this.setValue(f, value);
  }

  // Alpha is one affine map in a facet, or where ties cut it in each of its triangles.
  computeAlpha(f) {
    const { atlas } = this;
    const i = this.pointOfRow();
    if (i < 0) return this.setValue(f, i === -2 ? 1 : 0);
    if (atlas.cuts.has(f)) return this.computeParts(f, i);
    const state = pieceState(atlas, firstPiece(atlas, f));
    if (state[i] !== MARGIN) return this.setValue(f, state[i] === INSIDE ? 1 : 0);
    this.values.set(this.shareOf(i, mapsOf(atlas, state)), 4 * f);
    return undefined;
  }

  computeParts(f, i) {
    const { first, count } = this.atlas.cuts.get(f);
    for (let k = 0; k < count; k++) {
      const maps = alphaIn(this.atlas, f, k);
      if (!maps.members.includes(i)) return this.setValue(f, pieceState(this.atlas, firstPiece(this.atlas, f))[i] === INSIDE ? 1 : 0);
      this.values.set(this.shareOf(i, maps), 4 * (first + k));
    }
    this.values[4 * f + 3] = KNOWN_VALUE;
    return undefined;
  }

  // The map of a point's alpha as a share of its bound.
  shareOf(i, { members, alpha }) {
    const k = members.indexOf(i);
    const [p, q, l] = alpha.map((map) => map[k] / this.atlas.weight[i]);
    return [p, q, l / this.atlas.unit, KNOWN_MAP];
  }

  setMap(f, [p, q, l]) {
    const { unit } = this.atlas;
    this.put(f, [p * unit, q * unit, l, KNOWN_MAP]);
    this.widen(f);
  }

  setValue(f, value) {
    this.put(f, [0, 0, value, KNOWN_VALUE]);
    if (this.quantity.id !== "alpha") this.widen(f);
  }
}

