// What a newcomer needs to know, in ten lines.

import { element, short } from "./dom.js";

// Keys are between strokes: |p|.
const linesFor = ([negative, positive]) => [
  `A linear classifier is trained with two costs of errors: C+ for rows that are “${positive}”, C− for rows that are “${negative}”. Each point of this plane is one pair of costs, so one classifier.`,
  "The plane is cut into cells, called facets. Inside a facet the same rows decide on the classifier, and it changes evenly. At an edge one row begins or ceases to decide.",
  "Nothing is sampled. The panel shows the exact classifier at the cursor; a duality gap of (almost) zero proves that none is better for these costs.",
  "Drag or |←| |→| |↑| |↓| to move, wheel or |+| |−| to zoom, |0| to see all. Zoom in until you see single facets.",
  "|c| and |C| change what the colours mean. Rows on the margin: how many rows the classifier is balanced on.",
  "Click or |p| pins a classifier (A). Pin a second one (B), and the panel says what is different. |x| removes the pins.",
  "|Shift| and arrows move the cursor. |/| goes to costs that you type, as 0.1, 2 (inf is allowed). |y| copies the classifier as Python.",
  "|s| changes the scale: logarithmic, linear, or a triangle that has infinite costs as its third side.",
  "|r| follows rows by their numbers: lines show where they come to the margin, cyan from outside (right and safe), red from inside (too near or wrong). Alpha, a colour, is how hard the first of them pulls.",
  "|b| goes to the best costs (★) of a selection, |n| and |N| along its ROC frontier. |t| is dark or light, |?| this help. The address of the page holds what you see: copy it to share.",
];

function withKeys(line) {
  return element("li", "", ...line.split("|").map((part, k) => (k % 2 ? element("kbd", "", part) : part)));
}

export function helpPanel(classes, close) {
  const list = element("ol", "", ...linesFor(classes.map((name) => short(name).replaceAll("|", "/"))).map(withKeys));
  const head = element("div", "head", element("h2", "", "How to read this map"));
  const panel = element("div", "help", head, list);
  panel.setAttribute("role", "dialog");
  panel.setAttribute("aria-label", "help");
  const done = element("button", "", "close (Esc)");
  done.type = "button";
  done.addEventListener("click", close);
  head.append(done);
  panel.hidden = true;
  return panel;
}
