// The cards of the panel. Each is made anew only when what it shows has changed; the keyboard stays where it is, what was opened stays open.

const STOPS = "button, input, summary";

export class Cards {
  constructor(root) {
    this.root = root;
    this.held = new Map();
  }

  // ``list``: { name, key, make } of each card; a card of a name is made anew when its key changes.
  show(list) {
    const place = this.focused();
    const before = this.held;
    this.held = new Map(list.map((wanted) => [wanted.name, renewed(before.get(wanted.name), wanted)]));
    const cards = Array.from(this.held.values(), ({ card }) => card);
    for (const card of Array.from(this.root.children)) if (!cards.includes(card)) card.remove();
    cards.forEach((card, k) => {
      if (this.root.children[k] !== card) this.root.insertBefore(card, this.root.children[k] ?? null);
    });
    if (place && this.focused()?.stop !== place.stop) this.held.get(place.name)?.card.querySelectorAll(STOPS)[place.k]?.focus();
  }

  // The card and the place in it that has the keyboard.
  focused() {
    const stop = this.root.getRootNode().activeElement;
    for (const [name, { card }] of this.held) {
      const k = Array.from(card.querySelectorAll(STOPS)).indexOf(stop);
      if (k >= 0) return { name, k, stop };
    }
    return null;
  }
}

function renewed(before, { key, make }) {
  const text = JSON.stringify(key);
  if (before?.text === text) return before;
  const card = make();
  const opened = before?.card.querySelector("details")?.open;
  if (opened) card.querySelector("details")?.setAttribute("open", "");
  return { text, card };
}
