"""A headless Chromium, driven over the WebDriver protocol: plain HTTP, so httpx is all it takes."""

import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


def programs() -> tuple[str, str] | None:
    """Return where Chromium and its driver are; None where one of them is not."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return None if chromium is None or driver is None else (chromium, driver)


class Browser:
    """One window. Any: JSON."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client, self._session = client, session

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a WebDriver command; raises RuntimeError when it fails."""
        return _value(self._client.request(method, f"{self._session}{path}", json=body))

    def go(self, url: str) -> None:
        self.ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a function's body returns in the page; a promise is waited for."""
        wrapped = (
            "const done = arguments[arguments.length - 1], given = [...arguments].slice(0, -1);"
            f"(async function () {{ {script} }}).apply(null, given)"
            ".then(done, (error) => done(`failed: ${error}`))"
        )
        return self.ask("POST", "/execute/async", {"script": wrapped, "args": list(arguments)})

    def until(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns as soon as that is true: it is run after each change of
        the page, and now and then, for twenty seconds."""
        wait = (
            "const end = performance.now() + 20000;"
            f"const look = async (...arguments) => {{ {script} }};"
            "let found = await look(...arguments);"
            "while (!found && performance.now() < end) {"
            "  await new Promise((go) => {"
            "    const seen = new MutationObserver(go);"
            "    seen.observe(document, { subtree: true, childList: true, attributes: true,"
            "      characterData: true });"
            "    setTimeout(go, 100);"
            "  });"
            "  found = await look(...arguments);"
            "}"
            "return found;"
        )
        found = self.run(wait, *arguments)
        assert found, f"never true: {script}\n{self.text()}"
        return found

    def find(self, css: str) -> str:
        """Return an element."""
        found = self.ask("POST", "/element", {"using": "css selector", "value": css})
        return found[ELEMENT]

    def click(self, css: str) -> None:
        self.ask("POST", f"/element/{self.find(css)}/click", {})

    def type(self, css: str, text: str) -> None:
        """Type into an element in place of what is there; into a file input, the path of a file."""
        element = self.find(css)
        if self.ask("GET", f"/element/{element}/attribute/type") != "file":
            self.ask("POST", f"/element/{element}/clear", {})
        self.ask("POST", f"/element/{element}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        events = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": events}]})

    def text(self) -> str:
        """Return all text that can be seen."""
        return self.run("return document.body.innerText")

    def protocol(self, command: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def sized(self, width: int, height: int) -> None:
        """Show pages in a window of this size, as a phone does where it is narrow."""
        self.protocol(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def prefers(self, **features: str) -> None:
        """Have the reader prefer something, as `prefers-color-scheme` (with underscores)."""
        media = [
            {"name": f"prefers-{k.replace('_', '-')}", "value": v} for k, v in features.items()
        ]
        self.protocol("Emulation.setEmulatedMedia", features=media)

    def shoot(self, path: Path, height: int | None = None) -> None:
        """Save a picture of the page, all of it or down to a height."""
        size = self.protocol("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": height or size["height"],
            "scale": 1,
        }
        drawn = self.protocol("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(b64decode(drawn["data"]))

    def complaints(self) -> list[str]:
        """Return what the browser has complained of since it was last asked: errors of scripts,
        what the page's policy has kept from loading."""
        return [one["message"] for one in self.ask("POST", "/se/log", {"type": "browser"})]


@contextmanager
def browser(folder: Path, more: Sequence[str] = ()) -> Generator[Browser]:
    """Start a browser whose profile lies in an empty folder."""
    found = programs()
    assert found is not None
    chromium, driver = found
    command = [driver, "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = next(
                said[1]
                for line in process.stdout
                if (said := re.search(r"successfully on port (\d+)", line))
            )
            options = {
                "binary": chromium,
                "args": [*ARGUMENTS, *more, f"--user-data-dir={folder}"],
            }
            capabilities = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL"},
                "timeouts": {"script": 60000},
            }
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                wanted = {"capabilities": {"alwaysMatch": capabilities}}
                session = f"/session/{_value(client.post('/session', json=wanted))['sessionId']}"
                try:
                    yield Browser(client, session)
                finally:
                    client.delete(session)
        finally:
            process.terminate()


def _value(answer: httpx.Response) -> Any:  # Any: JSON
    value = json.loads(answer.content)["value"]
    if answer.status_code != 200:
        raise RuntimeError(f"{value['error']}: {value['message'].splitlines()[0]}")
    return value
