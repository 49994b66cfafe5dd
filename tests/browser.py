"""A headless Chromium for the tests of the page: the system's own, through Playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from importlib.util import find_spec

HOW = "needs a browser: apt-get install chromium, and pip install playwright"

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

MISSING = PROGRAM is None or find_spec("playwright") is None

ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
"""Root has no sandbox; pictures are drawn without a graphics card."""


class Tab:
    """A page in the browser, with what it complained about and what it asked the network for."""

    def __init__(self, page):
        self.page, self.complaints, self.requests = page, [], []
        page.on("console", self.listen)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def listen(self, message):
        if message.type == "error" or "GL_INVALID" in message.text:
            self.complaints.append(message.text)

    def open(self, path, fragment=""):
        self.page.goto("about:blank")
        self.requests.clear()
        self.page.goto(path.as_uri() + fragment)
        self.run("app.frames")
        self.settle()
        return self

    def run(self, expression, argument=None):
        """The value of an expression of ``app``, the page, and ``given``, an argument."""
        return self.page.evaluate(f"async (given) => {{ const app = await window.svmatlas; return {expression}; }}", argument)

    def settle(self):
        """Wait until nothing is left to draw or to compute."""
        busy = "app.scheduled || app.waiting || app.surfacing || app.resting || app.isDrawing || app.values.pending"
        self.page.evaluate(
            "async () => { const app = await window.svmatlas; let calm = 0; while (calm < 5) {"
            f" await new Promise((done) => setTimeout(done, 20)); calm = ({busy}) ? 0 : calm + 1; }} }}"
        )


@contextmanager
def browser(width=1280, height=720):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)
        yield Tab(program.new_page(viewport={"width": width, "height": height}))
        program.close()
