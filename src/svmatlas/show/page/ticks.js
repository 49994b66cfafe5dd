// Numbers beside an axis: round costs that are far enough from each other.

import { onAxis } from "./dom.js";

const APART = 90; // pixels between two numbers, about
const DECADE = [[0.8, [1]], [0.4, [1, 3]], [0.22, [1, 2, 5]], [0.1, [1, 1.5, 2, 3, 5, 7]]]; // decades between numbers, and which they are

// Numbers { at, text } between two places of an axis of so many pixels.
export function ticksOf({ name, unit }, low, high, length) {
  const count = Math.max(2, length / APART);
  if (name === "triangle") return triangleTicks(unit).filter(({ at }) => at >= low && at <= high);
  if (name === "linear") return roundBetween(low, high, count).map((at) => ({ at, text: onAxis(at) }));
  const apart = (high - low) / count;
  const multiples = DECADE.find(([least]) => apart >= least)?.[1];
  const costs = multiples ? decades(low, high, Math.max(1, Math.ceil(apart)), multiples) : roundBetween(10 ** low, 10 ** high, count);
  return costs.filter((cost) => cost > 0).map((cost) => ({ at: Math.log10(cost), text: onAxis(cost, 15) }));
}

function decades(low, high, step, multiples) {
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
