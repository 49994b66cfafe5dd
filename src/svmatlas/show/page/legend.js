// The legend: the colours of the chosen quantity with numbers at both ends and in the middle.

import { TABLES } from "./colors.js";
import { element, nice } from "./dom.js";

export class Legend {
  constructor() {
    this.canvas = element("canvas");
    [this.canvas.width, this.canvas.height] = [256, 1];
    this.title = element("div", "title");
    this.numbers = element("div", "numbers");
    this.note = element("div", "note");
    this.root = element("div", "legend", this.title, this.canvas, this.numbers, this.note);
  }

  // ``below``, ``beyond``: whether there are values outside of the range, which have the first or the last colour.
  show({ label, table }, range, note, { below, beyond }) {
    const context = this.canvas.getContext("2d");
    context.putImageData(new ImageData(new Uint8ClampedArray(TABLES[table]), 256, 1), 0, 0);
    this.title.textContent = label;
    const [low, high] = range;
    const numbers = [low, (low + high) / 2, high].map((value) => nice(value, 3));
    if (below) numbers[0] = `≤ ${numbers[0]}`;
    if (beyond) numbers[2] = `≥ ${numbers[2]}`;
    const texts = table === "two" ? ["even", "odd"] : numbers;
    this.numbers.replaceChildren(...texts.map((text) => element("span", "", text)));
    this.note.textContent = note;
  }
}
