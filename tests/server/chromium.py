"""Debian's Chromium, driven by Playwright, with a collector of errors of the page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 360, "height": 740}


def missing() -> str:
    """Return the reason why no browser is available, or ""."""
    if shutil.which("chromium") is None:
        return "no Chromium: `apt-get install chromium`"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no Playwright: `pip install playwright`"
    return ""


@dataclass
class Watched:
    """A page, its foreign requests and its console errors."""

    page: Any
    foreign: list[str] = field(default_factory=list)  # requests to other sites
    errors: list[str] = field(
        default_factory=list
    )  # messages of the console, including policy violations


@contextmanager
def browser() -> Iterator[Any]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        try:
            yield running
        finally:
            running.close()


@contextmanager
def page_of(
    running: Any, url: str, *, size: dict[str, int] | None = None, scheme: str = "light"
) -> Iterator[Watched]:
    """Open a page of a service in a new profile."""
    context = running.new_context(
        base_url=url, viewport=size or WIDE, color_scheme=scheme, reduced_motion="reduce"
    )
    watched = Watched(context.new_page())

    def requested(request: Any) -> None:
        if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(url):
            watched.foreign.append(request.url)

    def said(message: Any) -> None:
        if message.type == "error":
            watched.errors.append(message.text)

    context.on("request", requested)
    watched.page.on("console", said)
    watched.page.on("pageerror", lambda error: watched.errors.append(str(error)))
    watched.page.set_default_timeout(30_000)
    try:
        yield watched
    finally:
        context.close()
