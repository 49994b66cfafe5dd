// Starts the page: the data are in an element of it, the state is in its address.

import { mount } from "./app.js";
import { readLink } from "./link.js";
import { fromBase64 } from "./unpack.js";

function start() {
  const source = document.getElementById("data");
  const packed = fromBase64(source.textContent.trim());
  source.remove();
  const linked = (link) => history.replaceState(null, "", link);
  return mount(document.getElementById("map"), packed, { link: location.hash, linked, keys: document.body });
}

window.svmatlas = start();
window.svmatlas.then((app) => {
  document.title = app.atlas.title;
  addEventListener("hashchange", () => app.apply(readLink(location.hash)));
});
