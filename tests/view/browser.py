"""Debian's Chromium without a window, driven by its DevTools protocol over a pair of pipes: no package is needed.

The protocol is JSON messages that end in a zero byte; the browser reads from its descriptor 3 and answers on 4.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0  # a machine at work may need a while to start a browser
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), "ArrowLeft": (37, ""),
        "ArrowRight": (39, ""), "Tab": (9, ""), "End": (35, ""), "Home": (36, "")}


class Browser:
    """One browser with one page. Use it as a context; skips the test where no Chromium is installed."""

    def __enter__(self):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            pytest.skip("no Chromium here (Debian's package: chromium)")
        self._profile = tempfile.TemporaryDirectory(prefix="serl-chromium-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]  # clear of 3 and 4
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                     "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
                     "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = os.open(os.devnull, os.O_RDWR)
        self._pid = os.posix_spawn(program, [program, *arguments], os.environ, setpgroup=0, file_actions=[
            (os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2),
            (os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)])
        for end in (theirs_in, theirs_out, quiet, *high):
            os.close(end)
        self._buffer, self._number, self._session, self.messages = b"", 0, None, []
        try:
            self._attach()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _attach(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(1400, 900)

    def __exit__(self, *error):
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method, **params):
        """The result of one protocol method; AssertionError when the browser refuses it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.messages.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, path: Path, fragment=""):
        """Open a file and wait until its script has started, or has refused to."""
        self.call("Page.navigate", url="about:blank")  # else another fragment of the same file would not be a new page
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        self.wait("document.readyState === 'complete' && (!document.getElementById('keys-button')"
                  " || document.body.matches('.ready, .old-browser'))")

    def value(self, script):
        """The value of an expression in the page, as plain data."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script):
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.value(script):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.02)

    def press(self, key):
        """Press and release one key, as a keyboard would."""
        code, text = KEYS[key] if key in KEYS else (ord(key.upper()), key)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def type(self, text):
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def point(self, selector, click=False):
        """Move the mouse to the middle of an element, and click there if asked to."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{where}")
        self.value(f"{where}.scrollIntoView({{block: 'nearest'}})")
        left, top, width, height = self.value(f"(r => [r.left, r.top, r.width, r.height])({where}.getClientRects()[0])")
        place = {"x": left + width / 2, "y": top + height / 2}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def click(self, selector):
        """Click an element with the mouse, where it is: what covers it would get the click."""
        self.point(selector, click=True)

    def text(self, selector):
        """The text that an element shows."""
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def resize(self, width, height):
        """The size of the window, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name):
        """`dark` or `light`, as the system would ask for."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path):
        """Write what is in sight as PNG."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """What the page's console, its errors, and its content security policy said."""
        methods = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [message for message in self.messages if message.get("method") in methods]

    def requests(self):
        """Addresses that were asked for."""
        return [message["params"]["request"]["url"] for message in self.messages
                if message.get("method") == "Network.requestWillBeSent"]

    def _receive(self):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], TIMEOUT_S)
            assert ready, f"the browser said nothing for {TIMEOUT_S:.0f} s"
            data = os.read(self._in, 1 << 16)
            assert data, "the browser ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
