// Views linked to the plane: the facts of a selection, and the ROC frontier with costs of errors and prevalence as inputs.

import { button, element, nice, percent, svg } from "./dom.js";
import { hasSurface, scoreAt } from "./surface.js";

const SIDE = 220;
const EDGE = 24;

export function selectionCard(atlas, here, actions) {
  const { bestScore, bound, certified, costs, nCells, nFolds, grid } = atlas.selection;
  const proof = certified ? "Proven: no costs do better" : `Stopped early: no costs do better than ${nice(bound, 6)}`;
  const card = element("section", "card selection", element("h2", "", `Best cross-validated score ${nice(bestScore, 6)}`));
  const cells = `${nCells} best ${nCells === 1 ? "cell" : "cells"}, outlined`;
  const chosen = `Recommended (★): C+ = ${nice(costs[0])}, C− = ${nice(costs[1])}.`;
  card.append(element("p", "", `${proof}; ${nFolds} folds, ${cells}. ${chosen}`));
  if (grid.best !== null) {
    const lost = Math.max(0, bestScore - grid.best);
    const size = `${grid.pos.length} × ${grid.neg.length}`;
    card.append(element("p", "", `A grid of ${size} costs (dots) finds ${nice(grid.best, 6)}: ${nice(lost, 3)} less.`));
  }
  if (hasSurface(atlas) && here?.every((cost) => Number.isFinite(cost) && cost > 0)) {
    const score = scoreAt(atlas, ...here);
    card.append(element("p", "", `At the cursor: ${Number.isNaN(score) ? `not looked at, at most ${nice(bound, 6)}` : nice(score, 6)}.`));
  }
  card.append(element("p", "actions", ...actions.map(([text, title, action]) => button(text, title, action))));
  return card;
}

// The point of a frontier with the least expected cost of errors (Frontier.best).
export function bestPoint({ fpr, tpr }, costFp, costFn, prior) {
  const cost = (k) => costFn * prior * (1 - tpr[k]) + costFp * (1 - prior) * fpr[k];
  return fpr.reduce((best, _, k) => (cost(k) < cost(best) ? k : best), 0);
}

const place = (frontier, k) => [EDGE + frontier.fpr[k] * (SIDE - 2 * EDGE), SIDE - EDGE - frontier.tpr[k] * (SIDE - 2 * EDGE)];

function stairs(frontier) {
  const parts = [`M${EDGE},${SIDE - EDGE}`];
  frontier.fpr.forEach((_, k) => {
    const [x, y] = place(frontier, k);
    parts.push(`H${x}`, `V${y}`);
  });
  return [...parts, `H${SIDE - EDGE}`].join(" ");
}

function picture(frontier, chosen, choose) {
  const drawn = svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "roc", role: "img" });
  drawn.append(svg("rect", { x: EDGE, y: EDGE, width: SIDE - 2 * EDGE, height: SIDE - 2 * EDGE, class: "frame" }));
  drawn.append(svg("path", { d: stairs(frontier), class: "stairs" }));
  frontier.fpr.forEach((_, k) => {
    const [x, y] = place(frontier, k);
    const dot = svg("circle", { cx: x, cy: y, r: k === chosen ? 6 : 3, class: k === chosen ? "chosen" : "point" });
    dot.addEventListener("click", () => choose(k));
    drawn.append(dot);
  });
  const label = (x, y, text) => svg("text", { x, y, "text-anchor": "middle" }, text);
  drawn.append(label(SIDE / 2, SIDE - 6, "false positive rate"));
  for (const [x, y, text] of [[EDGE, SIDE - 12, "0"], [SIDE - EDGE, SIDE - 12, "1"], [EDGE - 7, SIDE - EDGE, "0"], [EDGE - 7, EDGE + 6, "1"]]) {
    drawn.append(label(x, y, text)); // prettier-ignore
  }
  const side = label(0, 0, "true positive rate");
  side.setAttribute("transform", `translate(12 ${SIDE / 2}) rotate(-90)`);
  drawn.append(side);
  return drawn;
}

function input(name, value, changed, most = Infinity) {
  const field = element("input");
  field.type = "number";
  field.min = "0";
  if (most < Infinity) field.max = String(most);
  field.step = "any";
  field.value = String(value);
  field.addEventListener("change", () => {
    const good = field.value !== "" && Number(field.value) >= 0 && Number(field.value) <= most;
    field.classList.toggle("wrong", !good);
    if (good) changed(Number(field.value));
  });
  return element("label", "", `${name} `, field);
}

// ``money``: costs of a false positive and of a false negative, and the share of positives. Changes are told by ``change``.
export function frontierCard(frontier, chosen, money, choose, change) {
  const card = element("section", "card frontier", element("h2", "", "What no costs can beat (ROC)"));
  card.append(picture(frontier, chosen, choose));
  const fields = element("p", "money");
  fields.append(input("cost of a false positive", money.fp, (fp) => change({ ...money, fp })));
  fields.append(input("of a false negative", money.fn, (fn) => change({ ...money, fn })));
  fields.append(input("share of positives", Number(money.prior.toPrecision(4)), (prior) => change({ ...money, prior }), 1));
  card.append(fields);
  if (chosen !== null) {
    const [p, q] = frontier.costs[chosen];
    const rates = `${percent(frontier.fpr[chosen])} false positives, ${percent(frontier.tpr[chosen])} true positives`;
    card.append(element("p", "", `chosen: ${rates}, at C+ = ${nice(p)}, C− = ${nice(q)}`));
  }
  return card;
}
