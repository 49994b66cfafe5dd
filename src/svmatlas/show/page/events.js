// The event paths of a row: edges of the map where it enters or leaves the margin, as in the paper's Figure 1.

import { INSIDE, MARGIN, OUTSIDE, neighboursOf } from "./atlas.js";

// The set of one point in each piece, from parent to child.
export function statesInPieces(atlas, i) {
  const n = atlas.parent.length;
  const state = new Int8Array(n);
  state[0] = atlas.start[i];
  for (let f = 1; f < n; f++) {
    state[f] = state[atlas.parent[f]];
    for (const code of [atlas.flipA[f], atlas.flipB[f]]) {
      if (code < 0 || code >> 1 !== i) continue;
      state[f] = state[f] === MARGIN ? (code & 1 ? INSIDE : OUTSIDE) : MARGIN;
    }
  }
  return state;
}

// The set of one point in each facet.
function statesOfPoint(atlas, i) {
  const state = statesInPieces(atlas, i);
  if (!atlas.piece) return state;
  const out = Int8Array.from(atlas.piece, (piece) => state[piece]);
  for (let f = 0; f < atlas.nFacets; f++) {
    for (let k = atlas.tiedAt[f]; k < atlas.tiedAt[f + 1]; k++) if (atlas.tied[k] === i) out[f] = MARGIN;
  }
  return out;
}

// Pairs of vertices, by type: 0 between margin and outside, 1 between margin and inside. A row may pass from one to the other at once.
export function eventPaths(atlas, row) {
  const paths = [[], []];
  const i = atlas.point[row];
  if (!(i >= 0) || !atlas.nFacets) return paths;
  const state = statesOfPoint(atlas, i);
  const neighbour = neighboursOf(atlas);
  for (let f = 0; f < atlas.nFacets; f++) {
    for (let k = atlas.at[f]; k < atlas.at[f + 1]; k++) {
      const g = neighbour[k];
      if (g < f || state[f] === state[g]) continue;
      const edge = [atlas.corners[k === atlas.at[f] ? atlas.at[f + 1] - 1 : k - 1], atlas.corners[k]];
      const sets = [state[f], state[g]];
      if (sets.includes(OUTSIDE)) paths[0].push(edge);
      if (sets.includes(INSIDE)) paths[1].push(edge);
    }
  }
  return paths;
}
