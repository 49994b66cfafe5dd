// The map as the page holds it: facets as rings of vertices, who lies behind each edge, and the partition of each facet.
//
// Costs are homogeneous, c = (p, q, l), in the units of the engine: C+ = p / l / unit, C- = q / l / unit, and l = 0 is infinity.
// A partition is one byte a point: OUTSIDE, INSIDE or MARGIN. It is found by going up the parents of a piece, as in mesh.py.

export const OUTSIDE = 0;
export const INSIDE = 1;
export const MARGIN = 2;
const NONE = -1;
const DROPPED = -1;
const ZERO = -2;

export function makeAtlas({ header, arrays }) {
  const atlas = { ...header, ...arrays };
  atlas.nFacets = atlas.sizes ? atlas.sizes.length : 0;
  atlas.nPoints = atlas.weight.length;
  atlas.unit = 2 ** atlas.costExponent;
  atlas.at = startsOf(atlas.sizes || []);
  if (!atlas.corners) atlas.corners = new Int32Array(0);
  atlas.rowsOfPoint = countRows(atlas);
  atlas.cuts = cutsOf(atlas);
  return atlas;
}

// Facets that ties cut: where their alpha begins, for how many points it is, and the triangles that they are drawn in. Triangles are
// numbered on from the facets.
function cutsOf(atlas) {
  const cuts = new Map();
  let [at, first] = [0, atlas.nFacets];
  (atlas.cutFacet || []).forEach((facet, k) => {
    const [nCorners, size] = [atlas.at[facet + 1] - atlas.at[facet], atlas.cutSize[k]];
    cuts.set(facet, { at, size, first, count: nCorners - 2 });
    at += nCorners * size;
    first += nCorners - 2;
  });
  atlas.nDrawn = first;
  return cuts;
}

function startsOf(sizes) {
  const at = new Int32Array(sizes.length + 1);
  for (let f = 0; f < sizes.length; f++) at[f + 1] = at[f] + sizes[f];
  return at;
}

function countRows(atlas) {
  const count = new Int32Array(atlas.nPoints);
  for (const point of atlas.point) if (point >= 0) count[point]++;
  return count;
}

// For each place of the rings the facet behind the edge that ends there, or NONE. Found when it is first needed.
export function neighboursOf(atlas) {
  if (!atlas.neighbour) atlas.neighbour = findNeighbours(atlas.at, atlas.corners, atlas.vertexP.length);
  return atlas.neighbour;
}

// An edge goes from a to b in one of its facets and from b to a in the other. It is looked for among the edges that leave b or
// that enter a, whichever are fewer: a corner of infinity may have very many.
function findNeighbours(at, corners, nVertices) {
  const { from, owner } = placesOf(at, corners);
  const leaving = listsOf(from, nVertices);
  const entering = listsOf(corners, nVertices);
  const neighbour = new Int32Array(corners.length).fill(NONE);
  for (let k = 0; k < corners.length; k++) {
    if (neighbour[k] !== NONE) continue;
    const [a, b] = [from[k], corners[k]];
    const fewer = leaving.count[b] < entering.count[a] ? leaving : entering;
    let other = fewer.first[fewer === leaving ? b : a];
    while (other !== NONE && !(from[other] === b && corners[other] === a && owner[other] !== owner[k])) other = fewer.next[other];
    if (other === NONE) continue;
    neighbour[k] = owner[other];
    neighbour[other] = owner[k];
  }
  return neighbour;
}

// The vertex that the edge of each place comes from, and the facet that the place belongs to.
function placesOf(at, corners) {
  const [from, owner] = [new Int32Array(corners.length), new Int32Array(corners.length)];
  for (let f = 0; f + 1 < at.length; f++) {
    for (let k = at[f]; k < at[f + 1]; k++) {
      from[k] = corners[k === at[f] ? at[f + 1] - 1 : k - 1];
      owner[k] = f;
    }
  }
  return { from, owner };
}

// Lists of places by vertex.
function listsOf(vertex, nVertices) {
  const [first, count] = [new Int32Array(nVertices).fill(NONE), new Int32Array(nVertices)];
  const next = new Int32Array(vertex.length);
  for (let k = 0; k < vertex.length; k++) {
    next[k] = first[vertex[k]];
    first[vertex[k]] = k;
    count[vertex[k]]++;
  }
  return { first, next, count };
}

function cross(state, code) {
  const i = code >> 1;
  state[i] = state[i] === MARGIN ? (code & 1 ? INSIDE : OUTSIDE) : MARGIN;
}

// The partition of a piece: what the engine found, where points on the margin are independent.
export function pieceState(atlas, piece) {
  const path = [];
  for (let f = piece; f > 0; f = atlas.parent[f]) path.push(f);
  const state = atlas.start.slice();
  for (let k = path.length - 1; k >= 0; k--) {
    const f = path[k];
    if (atlas.flipA[f] >= 0) cross(state, atlas.flipA[f]);
    if (atlas.flipB[f] >= 0) cross(state, atlas.flipB[f]);
  }
  return state;
}

// A piece of each facet: where ties cut a facet there are others, with other alpha (ties.js) but the same weights.
export function firstPiece(atlas, facet) {
  return atlas.piece ? atlas.piece[facet] : facet;
}

// The partition of a facet: all points on the margin, the tied ones too.
export function facetState(atlas, facet) {
  const state = pieceState(atlas, firstPiece(atlas, facet));
  if (atlas.tiedAt) {
    for (let k = atlas.tiedAt[facet]; k < atlas.tiedAt[facet + 1]; k++) state[atlas.tied[k]] = MARGIN;
  }
  return state;
}

// The state of each of the user's rows; NONE for rows of weight zero.
export function rowStates(atlas, state) {
  return Int8Array.from(atlas.point, (point) => (point === DROPPED ? NONE : point === ZERO ? INSIDE : state[point]));
}

// The facet that each piece is the first one of, NONE for others; null where pieces are facets.
export function facetOfPiece(atlas) {
  if (!atlas.piece) return null;
  if (!atlas.facetOf) {
    atlas.facetOf = new Int32Array(atlas.parent.length).fill(NONE);
    atlas.piece.forEach((piece, f) => (atlas.facetOf[piece] = f));
  }
  return atlas.facetOf;
}

// Rows on the margin and inside it, of every facet. Whether a flip enters or leaves the margin is not in its code: states are followed
// along the tree, depth first.
export function sizesOfSets(atlas) {
  if (!atlas.children) atlas.children = childLists(atlas.parent);
  const { first, sibling } = atlas.children;
  const facetOf = facetOfPiece(atlas);
  const found = { margin: new Int32Array(atlas.nFacets), inside: new Int32Array(atlas.nFacets) };
  const state = atlas.start.slice();
  const sizes = countSets(atlas, state);
  const note = (piece) => noteSizes(atlas, state, sizes, facetOf ? facetOf[piece] : piece, found);
  const [stack, next] = [[0], first.slice()];
  note(0);
  while (stack.length) {
    const f = stack[stack.length - 1];
    const child = next[f];
    if (child === NONE) {
      stack.pop();
      turn(atlas, state, sizes, atlas.flipB[f]);
      turn(atlas, state, sizes, atlas.flipA[f]);
      continue;
    }
    next[f] = sibling[child];
    turn(atlas, state, sizes, atlas.flipA[child]);
    turn(atlas, state, sizes, atlas.flipB[child]);
    note(child);
    stack.push(child);
  }
  return found;
}

// Rows in each set. Rows of zeros are always inside.
function countSets(atlas, state) {
  const sizes = new Int32Array(3);
  for (let i = 0; i < atlas.nPoints; i++) sizes[state[i]] += atlas.rowsOfPoint[i];
  sizes[INSIDE] += atlas.point.reduce((sum, point) => sum + (point === ZERO), 0);
  return sizes;
}

function turn(atlas, state, sizes, code) {
  if (code < 0) return;
  const i = code >> 1;
  sizes[state[i]] -= atlas.rowsOfPoint[i];
  cross(state, code);
  sizes[state[i]] += atlas.rowsOfPoint[i];
}

// Where rows are tied, more of them are on the margin than in the piece.
function noteSizes(atlas, state, sizes, facet, { margin, inside }) {
  if (facet < 0) return;
  margin[facet] = sizes[MARGIN];
  inside[facet] = sizes[INSIDE];
  if (!atlas.tiedAt) return;
  for (let k = atlas.tiedAt[facet]; k < atlas.tiedAt[facet + 1]; k++) {
    const i = atlas.tied[k];
    if (state[i] !== MARGIN) margin[facet] += atlas.rowsOfPoint[i];
    if (state[i] === INSIDE) inside[facet] -= atlas.rowsOfPoint[i];
  }
}

export function childLists(parent) {
  const first = new Int32Array(parent.length).fill(NONE);
  const sibling = new Int32Array(parent.length).fill(NONE);
  for (let f = parent.length - 1; f > 0; f--) {
    sibling[f] = first[parent[f]];
    first[parent[f]] = f;
  }
  return { first, sibling };
}

// Costs of the user as homogeneous costs of the engine, the largest entry near 1, all by powers of two (data/problem.py).
export function homogeneous(atlas, cPos, cNeg) {
  const c = [cPos, cNeg, 1];
  const exponents = c.map((value, k) => exponentOf(value) + (k < 2 ? atlas.costExponent : 0));
  const top = Math.max(...exponents.filter((_, k) => c[k] > 0));
  return c.map((value, k) => (value === 0 ? 0 : scaleBy(value, (k < 2 ? atlas.costExponent : 0) - top)));
}

// The exponent e with value = m 2^e and 1/2 <= m < 1.
export function exponentOf(value) {
  if (value === 0) return -Infinity;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = (view.getUint32(0) >>> 20) & 0x7ff;
  return bits ? bits - 1022 : exponentOf(value * 2 ** 64) - 64;
}

// Value times 2^exponent, in two steps: one factor alone may be out of range.
function scaleBy(value, exponent) {
  const half = Math.trunc(exponent / 2);
  return value * 2 ** half * 2 ** (exponent - half);
}
