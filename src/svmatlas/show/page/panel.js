// The panel beside the plane: the model under the cursor, the pinned ones, and what is different between two.

import { MARGIN, INSIDE, OUTSIDE, rowStates } from "./atlas.js";
import { button, counted, element, listed, nice, percent, table } from "./dom.js";
import { confusion, differing, isHeldOut, predictions, scoresOf } from "./scores.js";

const MOST_BARS = 15; // coefficients that are shown, the largest first
const MOST_ROWS = 40; // row numbers that are listed
const DOUBTFUL = { linear: 1e-9, kernel: 1e-6 }; // duality gaps from which on Python warns, too (AccuracyWarning)

function numbersOf(rows) {
  const text = Array.from(rows.slice(0, MOST_ROWS)).join(", ");
  return rows.length > MOST_ROWS ? `${text}, … (${rows.length} in all)` : text || "none";
}

export function rowsIn(atlas, model, set) {
  const states = rowStates(atlas, model.state);
  return Array.from(states.keys()).filter((row) => states[row] === set);
}

function sentence(atlas, model) {
  const [m, i, o] = [MARGIN, INSIDE, OUTSIDE].map((set) => rowsIn(atlas, model, set).length);
  return `${m} rows on the margin, ${i} inside it or wrong, ${o} safely outside`;
}

// Where it is, and the proof that it is right.
function facts(atlas, model) {
  const text = `facet ${counted(model.number)}, layer ${atlas.layer[model.facet]}; duality gap ${nice(model.gap, 2)}`;
  const isLinear = atlas.kernel === "linear";
  if (model.gap <= DOUBTFUL[isLinear ? "linear" : "kernel"]) return element("p", "note", text);
  const advice = isLinear ? " Columns of very different sizes? standardize=True helps." : "";
  return element("p", "note doubtful", `${text}: not exact here.${advice}`);
}

// Bars to both sides of a middle; ``other`` adds a second, thinner bar for comparison.
function bars(atlas, coef, other) {
  if (!coef) {
    const why = atlas.kernel === "linear" ? "Coefficients: too many columns for a page." : `Kernel ${atlas.kernel}: no coefficients.`;
    return element("p", "note", why);
  }
  const weight = (j) => Math.abs(other ? coef[j] - other[j] : coef[j]) * (atlas.scale ? atlas.scale[j] : 1);
  const order = Array.from(coef.keys()).sort((a, b) => weight(b) - weight(a)).slice(0, MOST_BARS);
  const size = (value, j) => Math.abs(value) * (atlas.scale ? atlas.scale[j] : 1);
  const top = Math.max(1e-300, ...order.map((j) => Math.max(size(coef[j], j), other ? size(other[j], j) : 0)));
  const list = element("div", "bars");
  for (const j of order) {
    const line = element("div", "bar", element("span", "name", atlas.names[j]));
    const second = other ? [other[j], size(other[j], j) / top] : [];
    line.append(track(coef[j], size(coef[j], j) / top, ...second), element("span", "number", listed(coef[j], other ? 3 : 4)));
    if (other) line.append(element("span", "number", listed(other[j], 3)));
    line.title = `${atlas.names[j]}: ${other ? [coef[j], other[j]].join(", ") : coef[j]}`;
    list.append(line);
  }
  const notes = coef.length > MOST_BARS ? [`the ${MOST_BARS} ${other ? "most different" : "largest"} of ${coef.length}`] : [];
  if (atlas.scale) notes.push("bars in standard units, numbers in those of the columns");
  if (notes.length) list.append(element("p", "note", notes.join("; ")));
  return list;
}

function track(value, share, other, otherShare) {
  const box = element("span", "track", bar(value, share, "first"));
  if (other !== undefined && other !== null) box.append(bar(other, otherShare, "second"));
  return box;
}

function bar(value, share, className) {
  const made = element("i", `${className} ${value < 0 ? "minus" : "plus"}`);
  made.style.width = `${50 * share}%`;
  return made;
}

function scoreTable(atlas, positive) {
  const counts = confusion(atlas, positive);
  const scores = scoresOf(counts);
  const [negative, positiveName] = atlas.classes;
  const matrix = table(
    [
      [isHeldOut(atlas) ? "held-out rows" : "training rows", `predicted ${negative}`, `predicted ${positiveName}`],
      [`truly ${negative}`, counted(counts.tn), counted(counts.fp)],
      [`truly ${positiveName}`, counted(counts.fn), counted(counts.tp)],
    ],
    "matrix",
  );
  const names = { balanced: "balanced accuracy", accuracy: "accuracy", f1: "F1", recall: "recall", precision: "precision" };
  const line = Object.entries(names).map(([key, name]) => `${name} ${percent(scores[key])}`).join(", ");
  return element("div", "", matrix, element("p", "note", line));
}

// Lines of Python that make the model from the user's X and y.
export function pythonOf(atlas, { cPos, cNeg }) {
  const number = (value) => (value === Infinity ? 'float("inf")' : String(value));
  const alone = `AsymmetricSVC(C_pos=${number(cPos)}, C_neg=${number(cNeg)}${atlas.arguments})`;
  const isWeighted = atlas.rowWeight.some((weight) => weight !== 1);
  const weights = (step) => (isWeighted ? `, ${step}sample_weight=sample_weight` : "");
  const lines = ["from svmatlas import AsymmetricSVC"];
  if (!atlas.standardized) return [...lines, `model = ${alone}`, `model.fit(X, y${weights("")})`].join("\n");
  lines.unshift("from sklearn.pipeline import make_pipeline", "from sklearn.preprocessing import StandardScaler");
  lines.push(`model = make_pipeline(StandardScaler(${atlas.center ? "" : "with_mean=False"}), ${alone})`);
  return [...lines, `model.fit(X, y${weights("standardscaler__")}${weights("asymmetricsvc__")})`].join("\n");
}

function heading(model, name, color) {
  const head = element("h2", "", `${name}: C+ = ${nice(model.cPos)}, C− = ${nice(model.cNeg)}`);
  if (color) Object.assign(head.style, { borderLeft: `6px solid ${color}`, paddingLeft: "6px" });
  return head;
}

function rowList(atlas, model) {
  return element("p", "note", numbersOf(rowsIn(atlas, model, MARGIN)));
}

export function modelCard(atlas, model, name, color, actions = []) {
  if (!model) {
    const why = atlas.pictures
      ? "This page does not hold the facet here. The argument region of page() adds those of a part of the plane."
      : "Not in the explored part of the plane.";
    return element("section", "card", element("h2", "", name), element("p", "note", why));
  }
  return element(
    "section",
    "card",
    heading(model, name, color),
    element("p", "", sentence(atlas, model)),
    facts(atlas, model),
    bars(atlas, model.coef),
    element("p", "note", `intercept ${nice(model.intercept, 6)}`),
    scoreTable(atlas, predictions(atlas, model.beta)),
    element("details", "", element("summary", "", "rows on the margin"), rowList(atlas, model)),
    element("p", "actions", ...actions.map(([text, title, action]) => button(text, title, action))),
  );
}

const NAMES_OF_SETS = { [MARGIN]: "margin", [INSIDE]: "inside", [OUTSIDE]: "outside" };

function moves(atlas, one, other) {
  const [a, b] = [rowStates(atlas, one.state), rowStates(atlas, other.state)];
  const groups = new Map();
  a.forEach((set, row) => {
    if (set === b[row]) return;
    const key = `${NAMES_OF_SETS[set]} → ${NAMES_OF_SETS[b[row]]}`;
    groups.set(key, [...(groups.get(key) || []), row]);
  });
  return groups;
}

export function comparison(atlas, one, other) {
  if (!one || !other) return element("section", "card compare", element("p", "note", "A pin is not in this map."));
  const unlike = differing(atlas, predictions(atlas, one.beta), predictions(atlas, other.beta));
  const card = element("section", "card compare", element("h2", "", "A beside B"));
  const legend = element("p", "note", "Bars and numbers: A (thick), then B (thin); those that differ most first.");
  const groups = Array.from(moves(atlas, one, other), ([name, rows]) => [name, numbersOf(rows)]);
  card.append(legend, bars(atlas, one.coef, other.coef));
  card.append(element("p", "", `${isHeldOut(atlas) ? "held-out" : "training"} rows predicted differently: ${numbersOf(unlike)}`));
  card.append(element("p", "", "rows that change their set:"));
  card.append(groups.length ? table(groups, "moves") : element("p", "note", "none"));
  return card;
}

export const PIN_NAMES = ["A", "B"];
