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

// A number as people read it.
export function nice(value, digits = 4) {
  if (value === null || value === undefined) return "not shown";
  if (value === Infinity) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
}

export function percent(value) {
  return `${(100 * value).toFixed(1)} %`;
}
