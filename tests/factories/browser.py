"""A real browser without a screen: Chromium, driven through its own pipe (Chrome DevTools Protocol), so that no driver
has to be installed. It makes no request to any network; pages come from files."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 60.0  # until the browser counts as hung
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find() -> str | None:
    """The browser's program; the variable CHROMIUM names another one."""
    programs = filter(None, map(shutil.which, filter(None, (os.environ.get("CHROMIUM"), *_NAMES))))
    return next((program for program in programs if _starts(program)), None)


def _starts(program: str) -> bool:
    """Some systems have a program of this name that only says how to install the real one."""
    return subprocess.run([program, "--version"], capture_output=True, timeout=_SECONDS).returncode == 0


class Page:
    """One tab."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests: list[str] = []
        self.troubles: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol."""
        return self._pipe.call(method, self._session, self._on_event, **parameters)

    def look_at(self, file: Path, *, width: int, dark: bool = False, script: bool = True) -> None:
        """Show a file in a window of this width, and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url=file.as_uri())
        while "Page.loadEventFired" not in self._pipe.seen:
            self._pipe.read(self._on_event)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def type(self, text: str) -> None:
        """Text as a keyboard sends it."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """One key, down and up."""
        codes = {"Enter": (13, "\r"), " ": (32, " "), "Tab": (9, ""), "Escape": (27, "")}
        code, text = codes[key]
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **given)

    def photograph(self, file: Path) -> None:
        """The whole page as a picture."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def _on_event(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.troubles.append(json.dumps(given["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded":
            self.troubles.append(given["entry"]["text"])


class _Pipe:
    """Messages end with a zero byte, in both directions."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = os.fdopen(incoming, "rb", buffering=0), os.fdopen(outgoing, "wb", buffering=0)
        self._rest = b""
        self._number = 0
        self.seen: set[str] = set()  # events since the last command

    def call(self, method: str, session: str | None = None, on_event: Any = None, **parameters: Any) -> Any:
        self._number += 1
        self.seen.clear()
        message = {"id": self._number, "method": method, "params": parameters}
        self._outgoing.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self.read(on_event)).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def read(self, on_event: Any) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self._rest:
            assert select.select([self._incoming], [], [], _SECONDS)[0], "the browser does not answer"
            chunk = self._incoming.read(1 << 16)
            assert chunk, "the browser has ended"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.seen.add(message["method"])
            if on_event is not None:
                on_event(message)
        return message

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()


@contextmanager
def opened(program: str) -> Iterator[Page]:
    """A browser with one tab and a profile of its own."""
    commands, answers = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        # The browser reads commands from 3 and writes answers to 4.
        shell = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", shell, str(commands[0]), str(answers[1]), program, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(commands[0], answers[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        pipe = _Pipe(answers[0], commands[1])
        try:
            pipe.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
            yield Page(pipe)
            pipe.call("Browser.close")
        finally:
            pipe.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
