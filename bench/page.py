"""The page of the breast-cancer map in a headless browser without a graphics card: its size, and loading and panning as ratios
to a page that holds nothing and clears its window in each frame.

Processor time is that of scripts, in the process of the page, and that of drawing, in the process that stands for a graphics
card. With a card the first stays as it is, and the second is the card's.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

EMPTY = """<!doctype html><canvas width="920" height="650"></canvas><script type="module">
const gl = document.querySelector("canvas").getContext("webgl2");
const draw = () => { gl.clearColor(Math.random(), 0, 0, 1); gl.clear(gl.COLOR_BUFFER_BIT); };
const app = { draw, move: draw, zoom: draw };
app.draw();
window.svmatlas = Promise.resolve(app);
</script>"""

FRAMES = 40

FIRST = "async () => { await window.svmatlas; await new Promise((done) => requestAnimationFrame(done)); }"

PAN = """async (count) => {
  const app = await window.svmatlas;
  for (let k = 0; k < count; k++) {
    app.move(k % 20 < 10 ? 5 : -5, k % 2 ? 5 : -5);
    await new Promise((done) => requestAnimationFrame(done));
  }
}"""

COLOR = """async () => {
  const app = await window.svmatlas;
  const begin = performance.now(), found = [];
  if (!app.values) return [0, 0, 0];
  app.setColor("coef:0");
  while (app.values.pending || !app.values.done) {
    await new Promise((done) => setTimeout(done));
    while (found.length < 2 - app.values.passes.length) found.push(performance.now() - begin);
  }
  return [...found, performance.now() - begin];
}"""
"""Milliseconds until the largest facets have a coefficient as their colour, all that a pixel shows have, and all have."""


class Clock:
    """Seconds since it was made, and processor time of scripts and of drawing since then."""

    def __init__(self, session):
        self.session, self.begin, self.before = session, time.perf_counter(), self.spent(session)

    @staticmethod
    def spent(session):
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return [sum(one["cpuTime"] for one in processes if one["type"] == kind) for kind in ("renderer", "GPU")]

    def read(self):
        after = self.spent(self.session)
        return time.perf_counter() - self.begin, *(b - a for a, b in zip(self.before, after, strict=True))


def measure(page, session, path):
    """Time, and that of scripts and of drawing: until the first picture, of a frame of panning at home, of one zoomed in.

    Then the three times of a coefficient as the colour, the last of them with the others.
    """
    page.goto("about:blank")
    clock = Clock(session)
    page.goto(path.as_uri())
    page.evaluate(FIRST)
    found = [clock.read()]
    for _ in range(2):
        page.wait_for_timeout(2000)
        clock = Clock(session)
        page.evaluate(PAN, FRAMES)
        found.append([value / FRAMES for value in clock.read()])
        page.evaluate("async () => { const app = await window.svmatlas; app.zoom(0.02); }")
    page.evaluate("async () => { const app = await window.svmatlas; app.goHome?.(); }")
    page.wait_for_timeout(2000)
    clock = Clock(session)
    largest, seen, _ = page.evaluate(COLOR)
    return [*found, [largest / 1e3, 0, 0], [seen / 1e3, 0, 0], clock.read()]


NAMES = (
    "first picture", "frame of panning at home", "zoomed in", "a coefficient as the colour: the largest facets",
    "all that a pixel shows", "all in view",
)  # fmt: skip


def compare_page(atlas):
    """Print one table."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        print("page: needs a browser: apt-get install chromium, and pip install playwright")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        paths = Path(folder) / "map.html", Path(folder) / "empty.html"
        atlas.page(paths[0])
        paths[1].write_text(EMPTY)
        arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        page, session = browser.new_page(viewport={"width": 1280, "height": 720}), browser.new_browser_cdp_session()
        rounds = [[measure(page, session, path) for path in paths] for _ in range(3)]
        browser.close()
        size = paths[0].stat().st_size / 1e6
    own, empty = np.min(rounds, axis=0)
    print(f"The page of {atlas.n_facets:,} facets has {size:.1f} MB.\n")
    head = "| software rendering | time | as a ratio to an empty page | processor time of scripts | of drawing |"
    print(head + "\n" + 5 * "|---" + "|")
    for name, (elapsed, scripts, drawing), (nothing, *_) in zip(NAMES, own, empty, strict=True):
        ratio = f"{elapsed / nothing:.1f}" if not name.startswith(NAMES[3:]) else ""
        parts = [f"{1e3 * value:,.0f} ms" if value else "" for value in (scripts, drawing)]
        print(f"| {name} | {1e3 * elapsed:,.0f} ms | {ratio} | {parts[0]} | {parts[1]} |")
    print(flush=True)
