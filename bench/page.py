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

FRAMES = 20

FIRST = "async () => { await window.svmatlas; await new Promise((done) => requestAnimationFrame(done)); }"

PAN = """async (count) => {
  const app = await window.svmatlas;
  for (let k = 0; k < count; k++) {
    app.move(k % 2 ? 15 : -15, 5);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
}"""


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
    """Time, and that of scripts and of drawing: until the first picture, of a step of panning at home, of one zoomed in."""
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
    return found


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
    for k, name in enumerate(("first picture", "step of panning at home", "zoomed in")):
        times = " | ".join(f"{1e3 * value:,.0f} ms" for value in own[k])
        first, rest = times.split(" | ", 1)
        print(f"| {name} | {first} | {own[k][0] / empty[k][0]:.1f} | {rest} |")
    print(flush=True)
