// What facets are coloured by: a value for each facet, or an affine map of the costs.
//
// Sizes of sets and layers are known at once. Values that need models are computed in short turns, on a walk over the tree of facets
// (sweep.js): first for the largest in view, then for all that a pixel shows, then for the rest in view. What was not reached yet is grey.

import { INSIDE, MARGIN, facetOfPiece, firstPiece, sizesOfSets } from "./atlas.js";
import { WIDE } from "./draw.js";
import { statesInPieces } from "./events.js";
import { alphaMap, coefficientMap, coefficientVector, weightsAt } from "./measures.js";
import { isHeldOut } from "./scores.js";
import { Sweep } from "./sweep.js";
import { Tally } from "./tally.js";
import { alphaIn } from "./ties.js";

const KNOWN_MAP = 1;
const KNOWN_VALUE = 2;
const USUAL = 0.98; // of the facets have a colour of their own,
export const FAR = 2; // if the others reach beyond their range by this factor
const ALIKE = 0.25; // of the largest value
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
  if (!atlas.setSizes) atlas.setSizes = sizesOfSets(atlas);
  const { margin, inside } = atlas.setSizes;
  return id === "margin" ? margin : margin.map((count, f) => count + inside[f]);
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

// The user's costs in the middle of each facet, in pairs.
function middlesOf(atlas) {
  const middles = new Float64Array(2 * atlas.nFacets);
  for (let f = 0; f < atlas.nFacets; f++) {
    const [p, q, l] = middleOfFacet(atlas, f);
    middles[2 * f] = p / l / atlas.unit;
    middles[2 * f + 1] = q / l / atlas.unit;
  }
  return middles;
}

export class Values {
  constructor(atlas, painter) {
    Object.assign(this, { atlas, painter, range: [0, 1], axis: TO_COSTS, passes: [], sweep: null, version: 0 });
    this.values = new Float32Array(4 * WIDE * painter.height);
    this.forget();
  }

  forget() {
    Object.assign(this, { passes: [], sweep: null, done: 0, total: 0, beyond: false, axis: TO_COSTS });
    this.changedRows = [0, this.painter.height];
    this.version++;
  }

  // Begin with a quantity; ``context``: the chosen row, and the predictions of pin A.
  choose(quantity, context) {
    this.quantity = quantity;
    this.context = context;
    this.values.fill(0);
    this.forget();
    if (quantity.picture) return;
    if (!quantity.needsModels) return this.fill(valueOfFacets(this.atlas, quantity.id));
    this.range = NOTHING;
    if (quantity.id === "alpha") this.beginAlpha();
    else this.take = this.visitor();
  }

  fill(found) {
    for (let f = 0; f < found.length; f++) {
      this.values[4 * f + 2] = found[f];
      this.values[4 * f + 3] = KNOWN_VALUE;
    }
    for (const f of this.atlas.cuts.keys()) this.put(f, 0, 0, found[f], KNOWN_VALUE);
    const sorted = found.slice().sort();
    this.range = sorted.length ? usualRange(sorted) : NOTHING;
    this.beyond = sorted.at(-1) > this.range[1];
  }

  // Facets to compute next: lists, each with those before it; known ones are passed over. ``seenOf`` gives costs in the middle of what is
  // seen of a facet, given those in its middle.
  ask(passes, seenOf) {
    this.seenOf = seenOf;
    if (!this.quantity?.needsModels) return;
    this.passes = passes.slice();
    this.sweep = null;
    const all = passes.at(-1);
    this.total = all.length;
    this.done = 0;
    if (this.quantity.id !== "alpha") this.range = NOTHING; // colours are for what is in view: far out coefficients may be huge
    for (const f of all) {
      if (!this.isKnown(f)) continue;
      this.done++;
      this.widen(f);
    }
  }

  isKnown(f) {
    return this.values[4 * f + 3] !== 0;
  }

  widen(f) {
    if (this.quantity.id === "alpha") return;
    const value = this.valueInView(f);
    if (!Number.isFinite(value)) return;
    const { range } = this;
    if (value < range[0] || value > range[1]) this.range = [Math.min(range[0], value), Math.max(range[1], value)];
  }

  // In the middle of what is seen of a facet: it may reach far out, to values that are not in view.
  valueInView(f) {
    const { values, middles } = this;
    if (values[4 * f + 3] === KNOWN_VALUE) return values[4 * f + 2];
    const seen = this.seenOf(f, middles[2 * f], middles[2 * f + 1]);
    return seen ? values[4 * f] * seen[0] + values[4 * f + 1] * seen[1] + values[4 * f + 2] : NaN;
  }

  get middles() {
    if (!this.atlas.middles) this.atlas.middles = middlesOf(this.atlas);
    return this.atlas.middles;
  }

  // The values that the colours are for. Those of signs are for as much below zero as above.
  get shown() {
    const [low, high] = this.range[0] <= this.range[1] ? this.range : [0, 0];
    if (this.table !== "sign") return [low, high];
    const most = Math.max(-low, high);
    return [-most, most];
  }

  // The colours: close by, where all values have one sign and are nearly alike, signs would be one colour.
  get table() {
    const { quantity: { table }, range: [low, high] } = this; // prettier-ignore
    const alike = low * high > 0 && high - low < ALIKE * Math.max(-low, high);
    return table === "sign" && alike ? "size" : table;
  }

  get pending() {
    return this.passes.length > 0 || this.sweep !== null;
  }

  // Work for so many milliseconds.
  work(milliseconds) {
    const end = performance.now() + milliseconds;
    const hidden = this.passes.length === 0; // facets of the last pass are on no pixel: they are drawn at the end
    while (this.pending && performance.now() < end) {
      if (!this.sweep) this.beginPass();
      this.sweep.run(end);
      if (this.sweep.done) this.sweep = null;
    }
    if (!hidden || !this.pending) this.version++;
  }

  beginPass() {
    const { atlas } = this;
    const chosen = new Uint8Array(atlas.parent.length);
    for (const f of this.passes.shift()) if (!this.isKnown(f)) chosen[firstPiece(atlas, f)] = 1;
    const facetOf = facetOfPiece(atlas);
    this.sweep = new Sweep(atlas, chosen, (piece, margin) => {
      const f = facetOf ? facetOf[piece] : piece;
      this.take(f, margin);
      this.done++;
    });
  }

  // Give the painter what is new.
  upload() {
    const [first, last] = this.changedRows;
    if (last > first) this.painter.setValues(this.values, first, last);
    this.changedRows = [this.painter.height, 0];
  }

  // What is drawn as a facet: itself, and where ties cut it its triangles.
  put(f, p, q, l, known) {
    this.putOne(f, p, q, l, known);
    const cut = this.atlas.cuts.size && this.atlas.cuts.get(f);
    for (let k = 0; cut && k < cut.count; k++) this.putOne(cut.first + k, p, q, l, known);
  }

  putOne(id, p, q, l, known) {
    const { values, changedRows } = this;
    values[4 * id] = p;
    values[4 * id + 1] = q;
    values[4 * id + 2] = l;
    values[4 * id + 3] = known;
    const row = Math.floor(id / WIDE);
    if (row < changedRows[0]) changedRows[0] = row;
    if (row >= changedRows[1]) changedRows[1] = row + 1;
  }

  // What is done with the margin of a facet.
  visitor() {
    const { atlas, quantity: { id } } = this; // prettier-ignore
    if (id.startsWith("coef:")) {
      const j = Number(id.slice(5));
      const g = coefficientVector(atlas, j);
      return (f, margin) => {
        const [p, q, l] = coefficientMap(atlas, margin, j, g);
        this.put(f, p * atlas.unit, q * atlas.unit, l, KNOWN_MAP);
        this.widen(f);
      };
    }
    if (id === "disagree" && !this.context.predictions) return (f) => this.setValue(f, 0);
    const tally = new Tally(atlas, id === "disagree" ? this.context.predictions : null);
    return (f, margin) => this.setValue(f, tally.of(weightsAt(atlas, margin, middleOfFacet(atlas, f))));
  }

  setValue(f, value) {
    this.put(f, 0, 0, value, KNOWN_VALUE);
    this.widen(f);
  }

  // Alpha of one row as a share of its bound: 0 or 1, and where the row is on the margin an affine map of the costs.
  beginAlpha() {
    const { atlas } = this;
    this.range = [0, 1];
    const i = atlas.point[this.context.row];
    if (!(i >= 0)) return this.fillAlpha(() => (i === -2 ? 1 : 0));
    this.axis = atlas.axis[i];
    const states = statesInPieces(atlas, i);
    this.fillAlpha((f) => {
      const state = states[firstPiece(atlas, f)];
      return state === MARGIN || atlas.cuts.has(f) ? null : state === INSIDE ? 1 : 0;
    });
    this.take = (f, margin) => {
      if (atlas.cuts.has(f)) return this.takeParts(f, margin, i, states[firstPiece(atlas, f)] === INSIDE ? 1 : 0);
      return this.takeShare(f, i, alphaMap(atlas, margin, margin.placeOf(i)));
    };
  }

  fillAlpha(valueOf) {
    for (let f = 0; f < this.atlas.nFacets; f++) {
      const value = valueOf(f);
      if (value !== null) this.put(f, 0, 0, value, KNOWN_VALUE);
    }
  }

  // Where ties cut a facet alpha has a map in each of its triangles.
  takeParts(f, margin, i, elsewhere) {
    const { first, count } = this.atlas.cuts.get(f);
    const members = membersOf(this.atlas, f, margin);
    const place = members.indexOf(i);
    if (place < 0) return this.put(f, 0, 0, elsewhere, KNOWN_VALUE);
    for (let k = 0; k < count; k++) {
      const { alpha } = alphaIn(this.atlas, f, k, members);
      this.takeShare(first + k, i, alpha.map((map) => map[place])); // prettier-ignore
    }
    this.values[4 * f + 3] = KNOWN_VALUE;
    return undefined;
  }

  takeShare(id, i, [p, q, l]) {
    const weight = this.atlas.weight[i];
    this.putOne(id, p / weight, q / weight, l / weight / this.atlas.unit, KNOWN_MAP);
  }
}

// All points on the margin of a facet, the tied ones too, in ascending order.
function membersOf(atlas, f, margin) {
  const members = new Set(margin.members.subarray(0, margin.size));
  for (let k = atlas.tiedAt[f]; k < atlas.tiedAt[f + 1]; k++) members.add(atlas.tied[k]);
  return Array.from(members).sort((a, b) => a - b);
}
