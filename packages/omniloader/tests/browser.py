"""A real headless Chromium for the page's tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """The browser's command, if there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found is not None:
            return found
    return None


def run(browser: str, page: Path, profile: Path, *options: str) -> str:
    """Open a page with some options and give what the browser prints."""
    command = [browser, *_FLAGS, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def scroll_width(browser: str, page: str, folder: Path, width: int) -> int:
    """How wide a page is that is shown in a frame of some width, in pixels.

    Args:
        browser: Its command.
        page: The page's HTML.
        folder: An empty folder to work in.
        width: Of the frame; a window is never narrower than 500 pixels.
    """
    probe = "<script>document.title=`${document.documentElement.scrollWidth}`</script>"
    (folder / "page.html").write_text(page.replace("</body>", f"{probe}</body>"), "utf-8")
    frame = (
        f'<iframe src="page.html" style="width:{width}px;height:900px;border:0" '
        'onload="document.title=this.contentDocument.title"></iframe>'
    )
    outer = folder / "outer.html"
    outer.write_text(f"<!doctype html><body style='margin:0'>{frame}", "utf-8")
    options = ("--allow-file-access-from-files", "--virtual-time-budget=3000", "--dump-dom")
    dom = run(browser, outer, folder / "profile", *options)
    title = re.search(r"<title>(\d+)</title>", dom)
    assert title is not None, dom[:500]
    return int(title[1])
