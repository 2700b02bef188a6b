"""The dashboard in Chromium, with a running job."""

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from ansorpy.server.db.upgrade import open_database
from ansorpy.server.web.filters import latency
from tests.server.chromium import PHONE, Watched, browser, missing, page_of
from tests.server.process import Live, process
from tests.server.service import MM, Service
from tests.server.test_pages import poison

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

BIG = "def mv(float(128,128) A, float(128) B) -> (C) { C(i) +=! A(i,k) * B(k) }"
END_MS = 150_000
PAINTED = """id => {
  const canvas = document.querySelector(`#${id} canvas`);
  if (!canvas) return 0;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i] > 0) count++;
  return count;
}"""
CHARTED = ("/jobs/", "/compare")  # pages with a chart of latencies begin so
TRIALS = "document.querySelector('#latency-text').textContent.match(/after (\\d+) trials/)?.[1]"
IN_SIGHT = """[...document.querySelectorAll(".verdicts tbody tr")].filter((row) => {
  const box = row.getBoundingClientRect();
  return row.checkVisibility({ visibilityProperty: true }) && box.left >= 0 && box.width > 100;
}).length"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def until(page: Any, expression: str, limit_ms: int = 30_000) -> None:
    """Wait for an expression; Playwright's own wait is an eval, which the policy forbids."""
    for _ in range(limit_ms // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")


def starts(text: str) -> str:
    """Return the expression that the caption of the latencies starts with a text."""
    return f"document.querySelector('#latency-text').textContent.startsWith({json.dumps(text)})"


def painted(page: Any, chart: str) -> None:
    """Wait for lines in a chart: the browser draws after the caption has changed."""
    until(page, f"({PAINTED})('{chart}') > 500")


def reported(watched: Watched, words: str) -> None:
    """Wait for an error in the console: it may come after the effect of its cause."""
    for _ in range(300):
        if any(words in error for error in watched.errors):
            return
        watched.page.wait_for_timeout(100)
    raise AssertionError(f"never reported: {words}; reported: {watched.errors}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, str]]:
    """A service with a worker, and the URL of its database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('browser') / 'ansorpy.db'}"
    with process(url, ANSORPY_EMBEDDED_WORKER="1") as running:
        yield running, url


@pytest.fixture(scope="module")
def job(live: tuple[Live, str], chromium: Any) -> str:
    """A job whose page was open from its first round to its end."""
    running, _ = live
    request = {"text": BIG, "budget": {"trials": 24}}
    job_id = str(running.post("/v1/jobs", json=request).json()["id"])
    with page_of(chromium, running.url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job_id}")
        until(page, f"{TRIALS} > 0", END_MS)  # the first kernel comes before the first trial
        first = int(page.evaluate(TRIALS))
        page.wait_for_selector("#head .state.succeeded", timeout=END_MS)
        until(
            page, "document.querySelector('#latency-text').textContent.includes('untuned or NumPy')"
        )
        last = int(page.evaluate(TRIALS))
        assert 0 < first < last <= 24
        painted(page, "latency")
        page.get_by_role("link", name="Code").click()
        page.wait_for_selector("#source .p-k", state="attached")
        clean(watched)
    return job_id


def clean(watched: Watched) -> None:
    assert watched.foreign == []
    assert watched.errors == []


def test_a_page_follows_its_job_to_the_end_without_a_reload(job: str) -> None:
    assert len(job) == 32  # watched by the fixture


def test_a_page_of_an_ended_job_shows_the_same(
    job: str, live: tuple[Live, str], chromium: Any
) -> None:
    with page_of(chromium, live[0].url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job}")
        until(page, TRIALS)
        page.locator(".switch").get_by_text("time").click()
        until(page, "document.querySelector('#latency .u-legend')?.textContent.includes('seconds')")
        painted(page, "latency")
        with page.expect_download() as download:
            page.get_by_role("link", name="latency as CSV").click()
        assert Path(download.value.path()).read_text().startswith("round,task,trials,seconds")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download zip").click()
        assert download.value.suggested_filename.endswith(".zip")
        clean(watched)


def test_tabs_show_trials_reasons_and_code(job: str, live: tuple[Live, str], chromium: Any) -> None:
    with page_of(chromium, live[0].url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job}")
        painted(page, "latency")
        tabs = page.get_by_role("navigation", name="Parts of the page")
        tabs.get_by_role("link", name="Trials").click()
        rows = page.locator(".trials tbody tr")
        assert rows.count() == 24
        page.get_by_role("link", name="Time", exact=True).click()
        fastest = rows.first.locator("td").nth(1).inner_text()
        assert page.locator(".trials th[aria-sort]").inner_text().startswith("Time")
        with page.expect_download() as download:
            page.get_by_role("link", name="trials as JSONL").click()
        told = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
        times_s = [one["best_s"] for one in told if one["best_s"] is not None]
        assert (len(told), fastest) == (24, latency(min(times_s)))
        tabs.get_by_role("link", name="Why").click()
        assert page.locator(".path li").count() > 0
        tabs.get_by_role("link", name="Code").click()
        copy = page.locator("section .copy").first
        copy.click()
        copy.get_by_text("ed").wait_for()  # Copied, or Selected without a clipboard
        for name in ("sketch", "source"):
            page.locator(f"#{name} summary").click()
            assert page.locator(f"#{name} pre").inner_text().strip()
        clean(watched)


def test_curves_end_at_the_time_in_the_list(
    job: str, live: tuple[Live, str], chromium: Any
) -> None:
    with page_of(chromium, live[0].url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job}")
        best = " ".join(page.locator("#best").inner_text().split()[:2])  # without its badge
        star = f"delivered (star): {best}"
        text = "document.querySelector('#latency-text').textContent"
        until(page, f"{text}.includes({json.dumps(star)})")  # once all events have arrived
        page.goto(f"/compare?a={job}&b={job}")
        until(page, starts(f"{job[:8]}: trials of "))
        assert best in page.locator("main").inner_text()
        page.goto("/jobs")
        assert page.locator(f"tr:has(a[href='/jobs/{job}'])").get_by_text(best).count() == 1
        clean(watched)


@pytest.mark.night
def test_no_page_is_wider_than_a_phone(job: str, live: tuple[Live, str], chromium: Any) -> None:
    with page_of(chromium, live[0].url, size=PHONE) as watched:
        paths = (
            "/jobs",
            f"/jobs/{job}",
            f"/jobs/{job}/explain",
            f"/jobs/{job}/why",
            f"/jobs/{job}?tab=trials",
            f"/jobs/{job}?tab=code",
            "/models",
            "/machines",
            f"/compare?a={job}&b={job}",
            "/login",
        )
        for path in paths:
            watched.page.goto(path)
            if path.startswith(CHARTED) and path.endswith(job):
                painted(watched.page, "latency")
            watched.page.wait_for_timeout(300)
            assert watched.page.evaluate(OVERFLOW) <= 0, path
        clean(watched)


@pytest.mark.night
def test_buttons_pause_resume_and_cancel_a_running_job(
    job: str, live: tuple[Live, str], chromium: Any
) -> None:
    running, _ = live
    request = {"text": BIG, "budget": {"trials": 5000}, "fresh": True}
    job_id = running.post("/v1/jobs", json=request).json()["id"]
    with page_of(chromium, running.url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job_id}")
        until(page, f"{TRIALS} > 0", END_MS)  # the first kernel comes before the first trial
        page.get_by_role("button", name="Pause").click()
        page.wait_for_selector("#head .state.paused", timeout=END_MS)
        assert running.get(f"/v1/jobs/{job_id}").json()["state"] == "paused"
        page.get_by_role("button", name="Resume").click()
        page.wait_for_selector("#head .state.running", timeout=END_MS)
        page.locator("#cancel summary").click()
        page.get_by_role("button", name="Cancel the job").click()
        page.wait_for_selector("#head .state.cancelled", timeout=END_MS)
        page.get_by_role("button", name="Run again").wait_for()
        assert page.locator(".actions").get_by_text("Cancel").count() == 0
        clean(watched)
    told = running.get(f"/v1/jobs/{job_id}").json()
    assert (told["state"], told["trials"] > 0) == ("cancelled", True)


@pytest.mark.night
def test_the_derivation_shows_every_evaluated_rule(
    job: str, live: tuple[Live, str], chromium: Any
) -> None:
    wanted = 0
    after: int | None = 0
    while after is not None:
        told = live[0].get(f"/v1/jobs/{job}/explain?after={after}").json()
        wanted += sum(len(visit["verdicts"]) for visit in told["visits"])
        after = told["next"]
    for size in (None, PHONE):
        with page_of(chromium, live[0].url, size=size) as watched:
            page = watched.page
            page.goto(f"/jobs/{job}")
            page.locator("#more summary").click()
            page.get_by_role("link", name="Derivation", exact=True).click()
            page.wait_for_url("**/explain")
            assert page.locator(".mark-best").count() == 1  # the sketch of the best program
            for line in page.locator(".tree summary").all():
                line.click()
            assert page.evaluate(IN_SIGHT) == wanted
            clean(watched)


def test_a_new_job_is_checked_compared_run_again_and_deleted(
    job: str, live: tuple[Live, str], chromium: Any
) -> None:
    for size in (None, PHONE):
        with page_of(chromium, live[0].url, size=size) as watched:
            page = watched.page
            page.goto("/jobs/new")
            page.locator("#text").fill("def mv(float(N,128) A, float(128) B) -> (")
            page.locator("#checked .failed").wait_for()
            page.locator("#text").fill(BIG.replace("float(128,128)", "float(N,128)"))
            page.get_by_label("Size N").fill("128")
            page.locator("#checked .green").wait_for()
            page.get_by_label("Threads").fill("1")
            page.get_by_label("Budget", exact=True).fill("0")
            page.get_by_role("button", name="Queue the job").click()
            page.wait_for_url(f"**/jobs/{job}")  # the same workload: answered
            page.goto("/jobs?state=succeeded")
            page.locator(f"#job-{job}").check()
            assert page.get_by_role("button", name="Compare").is_disabled()
            page.get_by_role("button", name="Run again").click()
            page.wait_for_url("**/jobs")
            again = live[0].get("/v1/jobs").json()["jobs"][0]["id"]
            assert again != job
            page.locator(f"#job-{job}").check()
            page.locator(f"#job-{again}").check()
            page.get_by_role("button", name="Compare").click()
            page.wait_for_selector("#latency canvas")
            assert again[:8] in page.locator("#latency-text").inner_text()
            page.keyboard.press("/")
            page.keyboard.type(again)
            page.keyboard.press("Enter")
            page.locator(f"a[href='/jobs/{again}']").click()
            page.locator("#delete summary").click()
            page.get_by_role("button", name="Delete the job").click()
            page.wait_for_url("**/jobs")
            assert live[0].get(f"/v1/jobs/{again}").status_code == 404
            page.get_by_role("button", name="Theme").click()
            page.goto("/kernels")
            assert page.evaluate("document.documentElement.dataset.theme") == "light"
            assert page.evaluate(OVERFLOW) <= 0
            clean(watched)


def test_two_jobs_share_a_chart(job: str, live: tuple[Live, str], chromium: Any) -> None:
    with page_of(chromium, live[0].url) as watched:
        watched.page.goto(f"/compare?a={job}&b={job}")
        watched.page.wait_for_selector("#latency canvas")
        assert "after" in watched.page.locator("#latency-text").inner_text()
        clean(watched)


@pytest.mark.night
def test_the_dark_theme_follows_the_system(job: str, live: tuple[Live, str], chromium: Any) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        with page_of(chromium, live[0].url, scheme=scheme) as watched:
            watched.page.goto(f"/jobs/{job}")
            watched.page.wait_for_selector("#latency canvas")
            seen[scheme] = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
            clean(watched)
    assert seen["light"] != seen["dark"]


def test_keyboard_and_labels(job: str, live: tuple[Live, str], chromium: Any) -> None:
    with page_of(chromium, live[0].url) as watched:
        page = watched.page
        page.goto(f"/jobs/{job}")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        nameless = page.evaluate(
            """[...document.querySelectorAll('input, select, button')].filter(
                 (e) => e.type !== 'hidden' && !e.labels?.length && !e.textContent.trim()
               ).map((e) => e.outerHTML)"""
        )
        assert nameless == []
        page.locator(".switch input").first.focus()
        page.keyboard.press("ArrowRight")
        until(page, "document.querySelector('#latency .u-legend')?.textContent.includes('seconds')")
        clean(watched)


def test_strings_of_requests_run_no_script(live: tuple[Live, str], chromium: Any, job: str) -> None:
    running, url = live
    engine = open_database(url)
    evil = poison(Service(running.http, engine))  # type: ignore[arg-type]  # also an httpx.Client
    engine.dispose()
    with page_of(chromium, running.url) as watched:
        page = watched.page
        for path in (f"/jobs/{evil}", "/machines", f"/compare?a={evil}&b={evil}"):
            page.goto(path)
            page.wait_for_timeout(300)
            assert page.evaluate("typeof window.evil") == "undefined", path
            assert page.locator("img").count() == 0
        clean(watched)


def test_the_content_security_policy_forbids_inline_code(
    live: tuple[Live, str], chromium: Any
) -> None:
    with page_of(chromium, live[0].url) as watched:
        watched.page.goto("/jobs")
        watched.page.evaluate(
            """() => {
              const script = document.createElement('script');
              script.textContent = 'window.evil = 1';
              document.body.append(script);
            }"""
        )
        assert watched.page.evaluate("typeof window.evil") == "undefined"
        reported(watched, "Content Security Policy")


def test_login_stores_the_session_in_an_http_only_cookie(tmp_path: Path, chromium: Any) -> None:
    key = tmp_path / "key"
    key.write_text(token_hex(32))
    url = f"sqlite:///{tmp_path / 'ansorpy.db'}"
    with process(
        url, ANSORPY_REQUIRE_KEYS="1", ANSORPY_ADMIN_KEY_FILE=str(key)
    ) as running, page_of(chromium, running.url) as watched:  # fmt: skip
        bearer = {"Authorization": f"Bearer {key.read_text()}"}
        job_id = running.post("/v1/jobs", json={"text": MM}, headers=bearer).json()["id"]
        page = watched.page
        page.goto(f"/jobs/{job_id}")
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        reported(watched, "401")
        watched.errors.clear()
        page.get_by_label("API key").fill(key.read_text())
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/jobs/{job_id}")
        page.get_by_text("Waits for a worker.").wait_for()  # the event stream sends the cookie, too
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")
        assert page.context.cookies() == []
        clean(watched)
