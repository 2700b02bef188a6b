"""`python -m tests.server.shots URL JOB [OTHER [MODEL]]`: take the pictures in docs/images."""

import sys
from pathlib import Path

from tests.server.chromium import PHONE, browser, page_of

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"


def main(url: str, job: str, other: str, model: str) -> None:
    """Take a picture of every page."""
    IMAGES.mkdir(exist_ok=True)
    wanted = (
        ("job-light", f"/jobs/{job}", None, "light"),
        ("job-dark", f"/jobs/{job}", None, "dark"),
        ("model-light", f"/jobs/{model}", None, "light"),
        ("job-phone", f"/jobs/{job}", PHONE, "light"),
        ("job-trials", f"/jobs/{job}?tab=trials&sort=time&variant=2", None, "light"),
        ("job-why", f"/jobs/{job}/why", None, "dark"),
        ("explain-light", f"/jobs/{job}/explain", None, "light"),
        ("explain-phone", f"/jobs/{job}/explain", PHONE, "dark"),
        ("jobs-light", "/jobs", None, "light"),
        ("compare-dark", f"/compare?job={job}&job={other}", None, "dark"),
        ("overview-light", "/", None, "light"),
        ("new-job-light", "/jobs/new", None, "light"),
        ("models-light", "/models", None, "light"),
        ("machines-light", "/machines", None, "light"),
    )
    with browser() as running:
        for name, path, size, scheme in wanted:
            with page_of(running, url, size=size, scheme=scheme) as watched:
                watched.page.goto(path)
                watched.page.wait_for_timeout(1500)
                for line in watched.page.locator(".tree .decision summary").all()[:1]:
                    line.click()  # open one decision, to show its rules
                watched.page.screenshot(path=IMAGES / f"{name}.png", full_page=True)
                for curve in watched.page.locator("#sizes section").all()[:1]:
                    if name == "job-light":  # a job with dims has one
                        curve.screenshot(path=IMAGES / "sizes-light.png")


if __name__ == "__main__":
    main(*sys.argv[1:3], *(sys.argv[3:] + sys.argv[2:3] * 2)[:2])
