// The page as a widget of a notebook (anywidget): costs go both ways. Numbers that JSON does not know are left out.

import { mount } from "./app.js";

async function render({ model, el }) {
  const root = document.createElement("div");
  root.style.height = "560px";
  root.dataset.lmSuppressShortcuts = "true"; // keys are the map's: in JupyterLab x would cut the cell
  el.append(root);
  const view = model.get("data");
  const packed = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  let own = false;
  const changed = (costs) => {
    if (own || !costs.every(Number.isFinite)) return;
    model.set("costs", costs);
    model.save_changes();
  };
  const app = await mount(root, packed, { changed, costs: model.get("costs") });
  model.on("change:costs", () => {
    const costs = model.get("costs");
    if (costs.every((value, k) => value === app.costs?.[k])) return;
    own = true;
    app.setCosts(costs);
    own = false;
  });
}

export const widget = { render };
