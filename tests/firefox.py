"""The system's Firefox for a test of the page: driven by WebDriver BiDi, on a screen that does not exist.

A Firefox without a screen (``--headless``) has no WebGL where there is no graphics card; in Xvfb it draws by software.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec

PACKAGES = "firefox-esr xvfb xauth libgl1-mesa-dri libegl1 libpci3"

HOW = f"needs Firefox and a screen: apt-get install {PACKAGES}, and pip install websockets"

PROGRAM = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)

MISSING = PROGRAM is None or shutil.which("xvfb-run") is None or find_spec("websockets") is None

PATIENCE = 120
"""Seconds that an answer may take."""


class Tab:
    """A page in the browser, with what it complained about and what it asked the network for."""

    def __init__(self, socket):
        self.socket, self.numbers, self.complaints, self.requests = socket, itertools.count(1), [], []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        self.context = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=PATIENCE))
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]
            self.listen(answer["method"], answer["params"])

    def listen(self, method, event):
        if method == "log.entryAdded" and event["level"] in ("error", "warn"):
            self.complaints.append(event["text"])
        if method == "network.beforeRequestSent":
            self.requests.append(event["request"]["url"])

    def open(self, path):
        self.requests.clear()
        self.call("browsingContext.navigate", context=self.context, url=path.as_uri(), wait="complete")
        end = time.monotonic() + PATIENCE
        while self._address() != path.as_uri():  # for a moment it may be the page before that answers
            assert time.monotonic() < end, "the page does not come"
            time.sleep(0.05)

    def _address(self):
        """Of the page that answers."""
        found = self.call("script.evaluate", expression="document.URL", target={"context": self.context}, awaitPromise=True)
        return found["result"].get("value") if found["type"] == "success" else None

    def run(self, expression, argument=None):
        """The value of an expression of ``app``, the page, and ``given``, an argument."""
        text = f"(async () => {{ const app = await window.svmatlas, given = {json.dumps(argument)}; "
        text += f"return JSON.stringify({expression}); }})()"
        found = self.call("script.evaluate", expression=text, target={"context": self.context}, awaitPromise=True)
        assert found["type"] == "success", found
        return json.loads(found["result"].get("value", "null"))


@contextmanager
def firefox():
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = ["xvfb-run", "-a", PROGRAM, "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as program:
            address = next(filter(None, (re.search(r"listening on (ws://\S+)", line) for line in program.stderr)))[1]
            with connect(f"{address}/session", max_size=None) as socket:
                tab = Tab(socket)
                yield tab
                tab.call("browser.close")
