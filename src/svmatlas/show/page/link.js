// The state of the page as the fragment of its address: a link reproduces the view.

const numbers = (text) => text.split(",").map((part) => (part === "inf" ? Infinity : Number(part)));
const shown = (list) => list.map((value) => (value === Infinity ? "inf" : String(value))).join(",");

export function writeLink(state) {
  const parts = [`scale=${state.scale}`, `color=${encodeURIComponent(state.color)}`, `theme=${state.theme}`];
  parts.push(`view=${shown([state.view.x, state.view.y, state.view.step])}`);
  if (state.costs) parts.push(`at=${shown(state.costs)}`);
  state.pins.forEach((pin) => parts.push(`pin=${shown(pin)}`));
  if (state.rows.length) parts.push(`rows=${shown(state.rows)}`);
  if (state.point !== null) parts.push(`roc=${state.point}`);
  if (state.money) parts.push(`money=${shown([state.money.fp, state.money.fn, state.money.prior])}`);
  return `#${parts.join("&")}`;
}

// What a fragment says; what is not understood is left out.
export function readLink(fragment) {
  const state = { pins: [] };
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const [key, text = ""] = part.split("=");
    const list = numbers(text);
    const good = list.every((value) => !Number.isNaN(value));
    if (key === "scale" && ["log", "linear", "triangle"].includes(text)) state.scale = text;
    if (key === "theme" && ["dark", "light"].includes(text)) state.theme = text;
    if (key === "color") state.color = safely(text);
    if (key === "view" && good && list.length === 3 && list[2] > 0) state.view = { x: list[0], y: list[1], step: list[2] };
    if (key === "at" && good && list.length === 2) state.costs = list;
    if (key === "pin" && good && list.length === 2 && state.pins.length < 2) state.pins.push(list);
    if (key === "rows" && text) state.rows = list;
    if (key === "money" && good && list.length === 3) state.money = { fp: list[0], fn: list[1], prior: list[2] };
    if (key === "roc" && Number.isInteger(list[0]) && text) [state.point] = list;
  }
  return state;
}

function safely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
