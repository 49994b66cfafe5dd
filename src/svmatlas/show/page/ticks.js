// Numbers beside an axis: round costs that are far enough from each other.

import { onAxis } from "./dom.js";

const APART = 90; // pixels between two numbers, about
const DECADE = [[1], [1, 3], [1, 2, 5]]; // multiples of powers of ten, if there is room for so many a decade
const ROOM = 0.25; // of a decade that a number needs: closer together they are those of a linear scale

// Numbers { at, text } between two places of an axis of so many pixels.
export function ticksOf({ name, unit }, low, high, length) {
  const count = Math.max(2, length / APART);
  if (name === "triangle") return triangleTicks(unit).filter(({ at }) => at >= low && at <= high);
  if (name === "linear") return roundBetween(low, high, count).map((at) => ({ at, text: onAxis(at) }));
  const apart = (high - low) / count;
  const costs = apart > ROOM ? decades(low, high, apart) : roundBetween(10 ** low, 10 ** high, count);
  return costs.filter((cost) => cost > 0).map((cost) => ({ at: Math.log10(cost), text: onAxis(cost, 15) }));
}

function decades(low, high, apart) {
  const multiples = DECADE[Math.min(2, Math.floor(1 / apart) - 1)] ?? DECADE[0];
  const step = Math.max(1, Math.ceil(apart));
  const found = [];
  for (let k = step * Math.floor(low / step); k <= high; k += step) found.push(...multiples.map((one) => Number(`${one}e${k}`)));
  return found.filter((cost) => Math.log10(cost) >= low && Math.log10(cost) <= high);
}

function roundBetween(low, high, count) {
  const rough = (high - low) / count;
  const power = Math.floor(Math.log10(rough));
  const multiple = [1, 2, 5, 10].find((one) => one * 10 ** power >= rough);
  const found = [];
  for (let k = Math.ceil(low / (multiple * 10 ** power)); k * multiple * 10 ** power <= high; k++) {
    found.push(Number(`${k * multiple}e${power}`));
  }
  return found;
}

function triangleTicks(unit) {
  const middle = Math.round(Math.log10(unit));
  return [-1, 0, 1].map((k) => {
    const cost = Number(`1e${middle + k}`);
    return { at: cost / (cost + unit), text: onAxis(cost) };
  });
}
