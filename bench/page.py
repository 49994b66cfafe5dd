"""The page of the breast-cancer map in a headless browser without a graphics card: its size, and loading and panning as ratios
to a page that holds nothing and clears its window in each frame.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

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
  const begin = performance.now();
  for (let k = 0; k < count; k++) {
    app.move(k % 2 ? 15 : -15, 5);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
  return (performance.now() - begin) / count;
}"""


def measure(page, path):
    """Seconds until the first picture, milliseconds of a step of panning at home, and zoomed in."""
    begin = time.perf_counter()
    page.goto(path.as_uri())
    page.evaluate(FIRST)
    loaded = time.perf_counter() - begin
    home = page.evaluate(PAN, FRAMES)
    page.evaluate("async () => { const app = await window.svmatlas; app.zoom(0.02); }")
    page.wait_for_timeout(2000)
    return loaded, home, page.evaluate(PAN, FRAMES)


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
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        rounds = [[measure(page, path) for path in paths] for _ in range(3)]
        browser.close()
        size = paths[0].stat().st_size / 1e6
    best = [[min(one[k][j] for one in rounds) for j in range(3)] for k in range(2)]
    ratios = [a / b for a, b in zip(*best, strict=True)]
    print("| page, software rendering | size | first picture | step of panning at home | zoomed in |\n" + 5 * "|---" + "|")
    print(f"| {atlas.n_facets:,} facets | {size:.1f} MB | {best[0][0]:.2f} s | {best[0][1]:.0f} ms | {best[0][2]:.0f} ms |")
    print("| as a ratio to an empty page | | " + " | ".join(f"{value:.1f}" for value in ratios) + " |\n")
