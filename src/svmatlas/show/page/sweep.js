// A walk over the tree of pieces that comes by chosen ones, with the margin of each (margin.js).
//
// Of the children of a piece the one with most chosen pieces below it comes last. The margin is copied for the others only, so that no
// more copies than log2 of the chosen pieces are held at once.

import { childLists } from "./atlas.js";
import { Margin } from "./margin.js";

const NONE = -1;
const TURN = 16; // pieces between looks at the clock

export class Sweep {
  // ``chosen``: one byte a piece. ``visit(piece, margin)`` is called for each chosen one.
  constructor(atlas, chosen, visit) {
    Object.assign(this, { atlas, chosen, visit, margins: [new Margin(atlas)], nodes: [], next: [], done: false });
    if (!atlas.children) atlas.children = childLists(atlas.parent);
    this.below = chosenBelow(atlas.parent, chosen);
    this.heavy = heaviest(atlas.parent, this.below);
    this.margins[0].begin(atlas.start);
    if (this.below[0]) this.arrive(0, 0);
    else this.done = true;
  }

  // Go on until a time (performance.now()).
  run(end) {
    while (!this.done && performance.now() < end) {
      for (let k = 0; k < TURN && !this.done; k++) this.step();
    }
  }

  step() {
    const level = this.nodes.length - 1;
    const node = this.nodes[level];
    const child = this.lightChild(level);
    if (child !== NONE) {
      this.margins[level + 1] ??= new Margin(this.atlas);
      this.margins[level + 1].copy(this.margins[level]);
      this.cross(child, level + 1);
    } else if (this.heavy[node] !== NONE) this.cross(this.heavy[node], level);
    else {
      this.nodes.pop();
      this.done = level === 0;
    }
  }

  // The next child with chosen pieces below it, but for the heaviest.
  lightChild(level) {
    const { sibling } = this.atlas.children;
    const heavy = this.heavy[this.nodes[level]];
    let child = this.next[level];
    while (child !== NONE && (child === heavy || !this.below[child])) child = sibling[child];
    this.next[level] = child === NONE ? NONE : sibling[child];
    return child;
  }

  cross(child, level) {
    this.margins[level].cross(this.atlas.flipA[child], this.atlas.flipB[child]);
    this.arrive(child, level);
  }

  arrive(node, level) {
    this.nodes[level] = node;
    this.next[level] = this.atlas.children.first[node];
    if (this.chosen[node]) this.visit(node, this.margins[level]);
  }
}

// How many chosen pieces there are at each piece and below it. Parents come before their children.
function chosenBelow(parent, chosen) {
  const below = Int32Array.from(chosen);
  for (let f = below.length - 1; f > 0; f--) below[parent[f]] += below[f];
  return below;
}

function heaviest(parent, below) {
  const heavy = new Int32Array(parent.length).fill(NONE);
  for (let f = 1; f < heavy.length; f++) {
    const above = parent[f];
    if (below[f] && (heavy[above] === NONE || below[f] > below[heavy[above]])) heavy[above] = f;
  }
  return heavy;
}
