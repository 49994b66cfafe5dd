// Costs <-> places on the plane, on a logarithmic or linear scale or on the triangle of the whole quadrant (show/plane.py).
//
// A place (x, y) is log10 of the costs, or the costs, or x = p/u / s, y = q/u / s with s = p/u + q/u + l on the triangle, where u is
// the cost in the middle of an axis. A view has a place in its middle and a step: the way on the plane for each pixel.

const SHARE = 0.92; // of the window that the home view fills

export const SCALES = ["log", "linear", "triangle"];

export function makeScale(name, home) {
  const middle = Math.sqrt(Math.sqrt(home[0] * home[1]) * Math.sqrt(home[2] * home[3])) || 1;
  return { name, unit: middle, home };
}

// A place from homogeneous costs in the user's units.
export function placeOf(scale, p, q, l) {
  if (scale.name === "log") return [Math.log10(p / l), Math.log10(q / l)];
  if (scale.name === "linear") return [p / l, q / l];
  const sum = (p + q) / scale.unit + l;
  return [p / scale.unit / sum, q / scale.unit / sum];
}

// The costs at a place; null outside the quadrant. Beyond the third side of the triangle there is nothing.
export function costsAt(scale, x, y) {
  if (scale.name === "log") return [10 ** x, 10 ** y];
  if (x < 0 || y < 0) return null;
  if (scale.name === "linear") return [x, y];
  const rest = 1 - x - y;
  return rest > 0 ? [(scale.unit * x) / rest, (scale.unit * y) / rest] : null;
}

// The inside of a box of places [x0, x1, y0, y1] as half planes h.c >= 0 of homogeneous costs. The triangle needs none: it is finite.
export function halfPlanes({ name }, [x0, x1, y0, y1]) {
  if (name === "triangle") return [];
  const cost = (place) => (name === "log" ? 10 ** place : place);
  return [[1, 0, -cost(x0)], [-1, 0, cost(x1)], [0, 1, -cost(y0)], [0, -1, cost(y1)]]; // prettier-ignore
}

export function homeView(scale, width, height) {
  let [x0, x1, y0, y1] = [0, 1, 0, 1];
  if (scale.name === "log") [x0, x1, y0, y1] = scale.home.map(Math.log10);
  if (scale.name === "linear") [x1, y1] = [scale.home[1], scale.home[3]];
  return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, step: Math.max((x1 - x0) / width, (y1 - y0) / height) / SHARE };
}

export function toPixel(view, size, x, y) {
  return [size.width / 2 + (x - view.x) / view.step, size.height / 2 - (y - view.y) / view.step];
}

export function fromPixel(view, size, px, py) {
  return [view.x + (px - size.width / 2) * view.step, view.y - (py - size.height / 2) * view.step];
}

export function boxOf(view, size, margin = 0) {
  const [w, h] = [(0.5 + margin) * size.width * view.step, (0.5 + margin) * size.height * view.step];
  return [view.x - w, view.x + w, view.y - h, view.y + h];
}

// A convex ring of homogeneous costs as far as it lies in a half plane.
export function clip(ring, h) {
  const depth = ring.map((c) => h[0] * c[0] + h[1] * c[1] + h[2] * c[2]);
  const out = [];
  ring.forEach((c, k) => {
    const next = (k + 1) % ring.length;
    if (depth[k] >= 0) out.push(c);
    if (depth[k] >= 0 === depth[next] >= 0) return;
    out.push(meeting(c, ring[next], depth[k], depth[next]));
  });
  return out;
}

// Where an edge meets a border that its ends are on two sides of. A sum of terms that are not negative: nothing cancels, and it is the
// same from both sides.
function meeting(a, b, da, db) {
  const [u, v] = [Math.abs(db), Math.abs(da)];
  return a.map((value, j) => (u * value + v * b[j]) / (u + v));
}

// The point in the middle of an edge, on a logarithmic scale, and how far the chord is from it. Ends are places and costs.
export function middleOf(a, b) {
  const wide = Math.abs(b.x - a.x) >= Math.abs(b.y - a.y);
  const u = Math.sqrt(wide ? b.p : b.q);
  const v = Math.sqrt(wide ? a.p : a.q);
  const p = (u * a.p + v * b.p) / (u + v);
  const q = (u * a.q + v * b.q) / (u + v);
  const x = Math.log10(p);
  const y = Math.log10(q);
  const off = wide ? y - (a.y + b.y) / 2 : x - (a.x + b.x) / 2;
  return { p, q, x, y, off: Math.abs(off) };
}

// A straight edge of homogeneous costs, inside some half planes, as a line of places, bent where the scale bends it by more than a tolerance.
export function bend(scale, first, last, tolerance, planes) {
  let ends = [first, last];
  for (const h of planes) ends = ends && clipSegment(...ends, h);
  return ends ? bentLine(scale, ...ends, tolerance) : [];
}

function clipSegment(a, b, h) {
  const [da, db] = [a, b].map((c) => h[0] * c[0] + h[1] * c[1] + h[2] * c[2]);
  if (da < 0 && db < 0) return null;
  return [da < 0 ? meeting(a, b, da, db) : a, db < 0 ? meeting(a, b, da, db) : b];
}

function bentLine(scale, a, b, tolerance) {
  if (scale.name !== "log") return [placeOf(scale, ...a), placeOf(scale, ...b)];
  const end = (c) => ({ p: c[0] / c[2], q: c[1] / c[2], x: Math.log10(c[0] / c[2]), y: Math.log10(c[1] / c[2]) });
  const [from, to] = [end(a), end(b)];
  const line = [[from.x, from.y]];
  const split = (u, v, depth) => {
    const middle = middleOf(u, v);
    if (depth > 0 && middle.off > tolerance) {
      split(u, middle, depth - 1);
      split(middle, v, depth - 1);
    } else line.push([v.x, v.y]);
  };
  split(from, to, 12);
  return line;
}
