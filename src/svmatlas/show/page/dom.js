// Elements and texts. Names and labels of the user become text nodes only, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, className = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(text, title, action) {
  const made = element("button", "", text);
  made.type = "button";
  made.title = title;
  made.addEventListener("click", action);
  return made;
}

export function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function table(rows, className = "") {
  return element("table", className, ...rows.map((cells) => element("tr", "", ...cells.map((cell) => element("td", "", cell)))));
}

// A number as people read it, without zeros at its end.
export function nice(value, digits = 4) {
  if (value === null || value === undefined) return "not shown";
  if (value === Infinity) return "∞";
  const rounded = Number(value.toPrecision(digits));
  return isPlain(rounded) ? String(rounded) : rounded.toExponential();
}

// A number of a list: all have the same number of digits, and their signs one width.
export function listed(value, digits = 4) {
  const text = isPlain(value) ? (value === 0 ? "0" : value.toPrecision(digits)) : value.toExponential(digits - 2);
  return text.replace(/^-/, "−");
}

const isPlain = (value) => value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5);

const SMALL_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// A number beside an axis: 0.01, 1, 20, or 10⁻⁶.
export function onAxis(value, digits = 8) {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  if (Math.abs(rounded) >= 1e-4 && Math.abs(rounded) < 1e5) return String(rounded);
  const [factor, power] = rounded.toExponential().split("e");
  const small = power.replace("+", "").replace("-", "⁻").replace(/\d/g, (digit) => SMALL_DIGITS[digit]);
  return factor === "1" ? `10${small}` : `${factor}·10${small}`;
}

export function counted(count) {
  return count.toLocaleString("en");
}

// A text of the user, cut where it is longer than a line.
export function short(text, most = 24) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function percent(value) {
  return `${(100 * value).toFixed(1)}\u00a0%`;
}
