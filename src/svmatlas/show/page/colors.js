// Colour maps that colour-blind people can read, as tables of 256 colours: cividis for sizes, blue to orange for signs.

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const SIGNS = ["#1b4f8a", "#4a86c0", "#9cc0e0", "#f2f2ef", "#f3c08a", "#d9822b", "#8f4a08"];
const TWO = ["#a6cde4", "#1b7c53"];

function parse(color) {
  return [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));
}

function ramp(colors) {
  const stops = colors.map(parse);
  const table = new Uint8Array(4 * 256);
  for (let i = 0; i < 256; i++) {
    const t = (i / 255) * (stops.length - 1);
    const k = Math.min(stops.length - 2, Math.floor(t));
    for (let c = 0; c < 3; c++) table[4 * i + c] = Math.round(stops[k][c] + (t - k) * (stops[k + 1][c] - stops[k][c]));
    table[4 * i + 3] = 255;
  }
  return table;
}

function steps(colors) {
  const table = new Uint8Array(4 * 256);
  for (let i = 0; i < 256; i++) table.set([...parse(colors[Math.floor((i * colors.length) / 256)]), 255], 4 * i);
  return table;
}

export const TABLES = { size: ramp(CIVIDIS), sign: ramp(SIGNS), two: steps(TWO) };
export const EVENT_COLORS = ["#00e5ff", "#d7191c"];
export const PIN_COLORS = ["#e6007e", "#00b86b"];

export function colorAt(table, place) {
  return Array.from(TABLES[table].subarray(4 * place, 4 * place + 3));
}
