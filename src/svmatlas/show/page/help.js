// What a newcomer needs to know, in ten lines.

import { element } from "./dom.js";

const LINES = [
  "Each place of the plane is one classifier: to the right errors on positive rows cost more, upwards errors on negative rows.",
  "The plane is cut into facets. Inside a facet the same rows hold the margin, and the model changes in a straight way.",
  "Nothing here is sampled: move the mouse, and the panel shows the exact model at that place, with proof (duality gap).",
  "Drag or use the arrow keys to move, the wheel or + and − to zoom, 0 to see all. Zoom until you see single facets.",
  "Click or press p to pin a model (A). Pin a second one (B), and the panel says what is different. x removes pins.",
  "Shift and arrow keys move the cursor. Type costs as 0.1, 2 (inf is allowed) into the box: / goes there.",
  "c and C change what the colours mean, s the scale: logarithmic, linear, or the triangle that has infinity as a side.",
  "r asks for rows: where they enter the margin is drawn (cyan: from outside, red: from inside), and alpha can be the colour.",
  "b goes to the best cells of a selection, n to the next point of the ROC frontier. y copies the model as Python.",
  "t changes between dark and light, ? shows this help. The address holds the view: copy it to share what you see.",
];

export function helpPanel(close) {
  const list = element("ol", "", ...LINES.map((line) => element("li", "", line)));
  const panel = element("div", "help", element("h2", "", "How to read this map"), list);
  const done = element("button", "", "close (Esc)");
  done.type = "button";
  done.addEventListener("click", close);
  panel.append(done);
  panel.hidden = true;
  return panel;
}
