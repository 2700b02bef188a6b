"""The dashboard without a browser: content, access and escaping of pages."""

import csv
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, update

from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.plan.choices import naive
from ansorpy.records import Record
from ansorpy.replay import plan_text
from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import JobRow, WorkerRow
from ansorpy.server.db.records import record_row
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.events import add_event
from ansorpy.server.routes.login import HOME, own_path
from ansorpy.server.service.charts import COLUMNS
from ansorpy.server.web.filters import latency, span
from ansorpy.target import Target
from tests.server.onnx_models import small
from tests.server.service import MM, SLOWER, Service, package, service

TARGET = Target(vector_bits=256, registers=16)
WEB = Path(__file__).parent.parent.parent / "server" / "web"
EVIL = "<script>window.evil=1</script><img src=x onerror=window.evil=1>\"'&"
ROUND = {
    "task": "mm", "trials": 8, "best_s": 2e-3, "round": 1, "failures": {"wrong": 1},
    "quality": {
        "candidates": 8, "kendall": 0.4, "spearman": 0.5, "top_k_recall": 0.75, "peak": 0.9, "k": 8,
    },
    "spent": {}, "latency_s": 2e-3, "seconds": 1.5,
}  # fmt: skip


def tell(running: Service, claimed: Any, **changes: Any) -> None:
    with running.held(claimed) as (tx, row, now_s):
        add_event(tx, row, "round", {**ROUND, **changes}, now_s)


def poison(running: Service) -> str:
    """Return a job with scripts in all of its strings."""
    running.worker("feedfeedfeedfeed", age_s=3600.0)
    job_id = running.submit(
        text=f"# {EVIL}\n" + "def mm(float(4) A) -> (C) { C(i) = A(i) }",
        target="feedfeedfeedfeed",  # a target without a living worker
    )
    with transaction(running.engine) as tx:
        failed = Record("k/t/1", "k", "cpu@0", "{}", (), Failed("wrong", EVIL))
        tenant = tx.query(JobRow.tenant_id).filter(JobRow.id == job_id).scalar()
        tx.add(record_row(failed, tenant, job_id, "mm", 1, origin="measured"))
        tx.execute(update(JobRow).where(JobRow.id == job_id).values(reason=EVIL))
        now_s = now(tx)
        tx.add(
            WorkerRow(
                id="evil", host=EVIL, pid=1, state="idle", job_id=None, target="t",
                facts=json.dumps({"target": {"name": EVIL}}), started_s=now_s, heartbeat_s=now_s,
            )
        )  # fmt: skip
    return job_id


def test_an_empty_list_shows_an_example_request(url: str) -> None:
    with service(url) as running:
        begin = running.client.get("/").text
        assert all(way in begin for way in ("Drop an ONNX file", "client.submit", "--watch"))
        parts = re.split(r'<div id="[a-z]+" data-part>', begin)
        (tabs,) = (part for part in parts if 'class="card tabs"' in part)
        assert "<h2>Machines</h2>" not in tabs, "a heartbeat would reset the chosen tab"
        page = running.client.get("/jobs")
        assert page.status_code == 200
        assert "No jobs yet" in page.text
        assert "No job is failed" in running.client.get("/jobs?state=failed").text
        assert "curl -H 'Content-Type: application/json'" in page.text
        assert "http://localhost/v1/jobs" in page.text
        assert "Authorization" not in page.text
        elsewhere = running.client.get("/jobs", headers={"Host": "127.0.0.1:9999"}).text
        assert "http://127.0.0.1:9999/v1/jobs" in elsewhere
        assert "No worker is alive" in running.client.get("/machines").text
        assert "No jobs yet that can be" in running.client.get("/compare").text


def test_the_example_request_has_a_key_if_keys_are_required(url: str) -> None:
    with service(url) as running:
        key = running.key("own", "read")
    with service(url, key) as running:
        strange = "evil.example';id;'"
        page = running.client.get("/jobs", headers={"Host": "tuner.example:80"}).text
        assert html.unescape(page).count('-H "Authorization: Bearer $ANSORPY_API_KEY"') == 1
        assert "http://tuner.example:80/v1/jobs" in page
        assert key["Authorization"] not in page
        odd = html.unescape(running.client.get("/jobs", headers={"Host": strange}).text)
        assert strange not in odd
        assert "/v1/jobs" in odd


def test_the_list_has_pages_and_states(url: str) -> None:
    with service(url) as running:
        ids = [running.submit(fresh=True) for _ in range(21)]
        first = running.client.get("/jobs").text
        assert ids[-1] in first
        assert ids[0] not in first
        older = re.search(r'href="(/jobs\?skip=\d+)"', first)
        assert older is not None
        assert ids[0] in running.client.get(older[1]).text
        assert ids[-1] not in running.client.get("/jobs?state=succeeded").text


def test_lists_tell_workloads_verdicts_and_names(url: str, tmp_path: Path) -> None:
    with service(url) as running:
        job_id, digest = running.succeed(fresh=True)
        model = small(tmp_path / "small.onnx").read_bytes()
        sha256 = running.put_model(model, name="résumé <b>.onnx")
        asked = {"model": sha256, "bind": {"batch": 2}}
        other = running.client.post("/v1/jobs", json=asked).json()["id"]
        for path in ("/", "/jobs", "/jobs?q=mm", "/search?q=mm", f"/jobs?q={job_id[:8]}"):
            page = running.client.get(path).text
            assert "float32 4×5, 5×6" in page, path  # noqa: RUF001
            assert re.search(r'class="gain amber">0\.50×</span>.*of NumPy', page), path  # noqa: RUF001
        assert other not in running.client.get("/jobs?q=mm").text
        assert job_id not in running.client.get("/jobs?q=R%C3%A9SUM%C3%A9").text.replace(other, "")
        for path in ("/jobs", "/models", "/jobs?q=small&q=onnx", "/search?q=onnx"):
            page = running.client.get(path).text
            assert "résumé &lt;b&gt;.onnx" in page, path
            assert "<b>" not in page, path
        line = running.client.get("/v1/jobs?q=onnx").json()["jobs"]
        assert [(one["id"], one["name"]) for one in line] == [(other, "résumé <b>.onnx")]
        assert running.client.get(f"/v1/models/{sha256}").json()["name"] == "résumé <b>.onnx"
        for path in ("/kernels", "/kernels?q=mm", f"/search?q={digest[:9]}"):
            assert digest[:12] in running.client.get(path).text, path
        assert "No kernel is called so" in running.client.get("/kernels?q=relu").text
        assert "Nothing is called so" in running.client.get("/search?q=%25").text
        by_name = running.client.get("/jobs?sort=name").text
        assert by_name.index(job_id) < by_name.index(other)


def test_a_queued_job_and_a_finished_job(url: str) -> None:
    with service(url) as running:
        waiting = running.client.get(f"/jobs/{running.submit()}?tab=trials").text
        assert "No trial has been measured yet" in waiting
        claimed = running.claim()
        tell(running, claimed)
        running.progress(claimed)
        running.client.post(f"/v1/jobs/{claimed.job_id}/cancel")
        job_id, digest = running.succeed(fresh=True)
        page = running.client.get(f"/jobs/{job_id}").text
        assert f"/v1/kernels/{digest}" in page
        assert f'<p class="notice verdict amber">{SLOWER}.</p>' in page
        assert "Faster by" not in page
        (task,) = running.client.get(f"/v1/jobs/{job_id}").json()["tasks"]
        assert task["verdict"] == SLOWER.as_object()
        code = running.client.get(f"/jobs/{job_id}?tab=code").text
        assert 'class="p-k"' in code  # the source has syntax highlighting
        compared = running.client.get(f"/compare?a={claimed.job_id}&b={job_id}").text
        assert 'id="comparison"' in compared


def test_a_running_job_has_its_kernel_and_its_speed_up_so_far(url: str) -> None:
    with service(url) as running:
        job_id = running.submit(fresh=True)
        page = running.client.get(f"/jobs/{job_id}").text
        assert "before the first trial" in page
        claimed = running.claim()
        digest = running.deliver(claimed, package(), final=False)
        times = {"best_s": 1e-3, "baseline_s": 4e-3, "naive_s": 4e-3, "numpy_s": 5e-3}
        with running.held(claimed) as (_, row, now_s):
            lease.store_progress(row, {"mm": {"trials": 0, **times}}, now_s)
        page = running.client.get(f"/jobs/{job_id}").text
        assert f"/v1/kernels/{digest}" in page
        assert re.search(r"4\.00×\s*<small>so far</small>", page)  # noqa: RUF001
        assert 'data-baseline="0.004"' in page
        running.client.post(f"/v1/jobs/{job_id}/cancel")
        page = running.client.get(f"/jobs/{job_id}").text
        assert f"/v1/kernels/{digest}" in page, "a cancelled job leaves its best"


def test_the_loop_nest_of_the_best_program_is_printed_as_loops(url: str) -> None:
    with service(url) as running:
        job_id = running.submit(fresh=True)
        (dag,) = parse(MM)
        plan = naive(dag, TARGET)
        row = plan.smallest_row
        best = Record("k/t/1", "w", "cpu@0", plan_text(plan), row, Measured((1e-3,)))
        with transaction(running.engine) as tx:
            tenant = tx.query(JobRow.tenant_id).filter(JobRow.id == job_id).scalar()
            tx.add(record_row(best, tenant, job_id, "mm", 1, origin="measured"))
        page = running.client.get(f"/jobs/{job_id}?tab=code").text
        found = re.search(r'<pre[^>]*data-name="the loops">(.*?)</pre>', page, re.DOTALL)
        assert found is not None
        shown = html.unescape(found[1])
        assert shown.startswith("program mm\n  input A: float32[4, 5]\n")
        assert re.search(r"^ +for \S+ in \d+.*:$", shown, re.MULTILINE)
        assert "Program(" not in page


@pytest.mark.parametrize("chart", COLUMNS)
def test_every_chart_can_be_downloaded(chart: str, url: str) -> None:
    with service(url) as running:
        job_id = running.submit()
        claimed = running.claim()
        tell(running, claimed)
        tell(running, claimed, trials=16, best_s=1e-3, latency_s=1e-3, seconds=3.0)
        place = f"/jobs/{job_id}/charts/{chart}"
        reply = running.client.get(f"{place}.csv")
        rows = list(csv.DictReader(io.StringIO(reply.text)))
        lines = running.client.get(f"{place}.jsonl").text.splitlines()
        assert [{k: str(v) for k, v in json.loads(line).items()} for line in lines] == rows
        assert tuple(rows[0]) == COLUMNS[chart]  # type: ignore[index]
        wanted = {
            "latency": {"trials": "16", "best_s": "0.001"},
            "quality": {"spearman": "0.5", "round": "2"},
            "allocation": {"trials": "16", "task_trials": "16", "round": "2"},
            "failures": {"kind": "wrong", "count": "1"},
        }[chart]
        assert rows[-1].items() >= wanted.items()


def test_the_models_of_a_tenant_are_listed_with_their_jobs(url: str, tmp_path: Path) -> None:
    with service(url) as running:
        empty = running.client.get("/models").text
        assert "No models yet" in empty
        assert "ANSORPY_URL=http://localhost ansorpy submit model.onnx --watch" in empty
        unused = running.put_model()
        used = running.put_model(small(tmp_path / "small.onnx").read_bytes())
        asked = {"model": used, "bind": {"batch": 2}}
        job_id = running.client.post("/v1/jobs", json=asked).json()["id"]
        page = running.client.get("/models").text
        rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
        assert f"/v1/models/{used}/file" in rows[1]  # the newest first
        assert f'href="/jobs/{job_id}"' in rows[1]
        assert "queued" in rows[1]
        assert f"/v1/models/{unused}" in rows[2]
        assert "queued" not in rows[2]


def test_the_page_of_models_has_older_pages_and_every_pass(url: str) -> None:
    with service(url) as running:
        passes = running.client.get("/v1/passes").json()["passes"]
        page = html.unescape(running.client.get("/models").text)
        for one in passes:
            assert one["name"] in page
            assert one["summary"] in page
        assert "No older models" in running.client.get("/models?before=0").text
        assert running.client.get("/models?before=x").status_code == 422


def test_two_jobs_in_one_table(url: str) -> None:
    with service(url) as running:
        a, b = running.submit(fresh=True), running.submit(fresh=True)
        for _ in range(2):
            tell(running, running.claim())
        text = running.client.get(f"/compare/latency.csv?a={a}&b={b}").text
        assert [row["job"] for row in csv.DictReader(io.StringIO(text))] == [a, b]
        assert f"/compare?job={b}&job={a}" in html.unescape(running.client.get("/compare").text)
        third = running.submit(fresh=True, search="random")
        shown = running.client.get(f"/compare?job={a}&job={b}&job={third}").text
        assert shown.count('<th scope="col">') == 3
        assert ">random</td>" in shown
        assert "Space" not in shown, "only options that differ"
        other = running.submit("def f(float(4) A) -> (C) { C(i) = A(i) }")
        refused = running.client.get(f"/compare?job={a}&job={other}")
        assert refused.status_code == 422
        assert "their workloads differ" in refused.text


def test_pages_of_other_tenants_are_not_found(url: str, engine: Engine) -> None:
    with transaction(engine) as tx:
        own, _ = keys.create(tx, "own", ("read", "tune"), now(tx))
        other, _ = keys.create(tx, "other", ("read", "tune"), now(tx))
    with service(url, {"Authorization": f"Bearer {own}"}) as running:
        job_id = running.submit()
        foreign = {"Authorization": f"Bearer {other}"}
        for path in (
            f"/jobs/{job_id}", f"/jobs/{job_id}/explain", f"/jobs/{job_id}/charts/latency.csv",
            f"/compare?a={job_id}", f"/compare/latency.csv?a={job_id}&b={job_id}",
        ):  # fmt: skip
            assert running.client.get(path).status_code == 200, path
            missing = running.client.get(path, headers=foreign)
            assert missing.status_code == 404, path
            assert missing.headers["content-type"].startswith("text/html")
        assert job_id not in running.client.get("/jobs", headers=foreign).text
        model = running.put_model()
        assert model in running.client.get("/models").text
        assert model not in running.client.get("/models", headers=foreign).text
        assert running.client.get("/machines").status_code == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [("/jobs/x", 404), ("/jobs?state=x", 422), ("/jobs?skip=-1", 422), ("/compare?a=x", 422)],
)
def test_an_invalid_address_is_an_error_page(path: str, status: int, url: str) -> None:
    with service(url) as running:
        reply = running.client.get(path)
        assert reply.status_code == status
        assert "<h1>" in reply.text


def test_signing_in_and_out(url: str, engine: Engine) -> None:
    with transaction(engine) as tx:
        key, _ = keys.create(tx, "local", ("read",), now(tx))
    with service(url) as running:
        away = running.client.get("/jobs", follow_redirects=False)
        assert (away.status_code, away.headers["location"]) == (303, "/login?next=%2Fjobs")
        form = running.client.get("/login?next=/jobs")
        assert form.headers["referrer-policy"] == "same-origin"
        for wrong in ("", "x", key[:-1], EVIL):
            refused = running.client.post("/login", data={"key": wrong})
            assert refused.status_code == 401
            assert EVIL not in refused.text
        own = {"Origin": "http://localhost"}
        for origin in ("http://evil.example", "null"):
            post = running.client.post("/login", data={"key": key}, headers={"Origin": origin})
            assert post.status_code == 403
        good = running.client.post(
            "/login", data={"key": key, "next": "/compare"}, headers=own, follow_redirects=False
        )
        assert (good.status_code, good.headers["location"]) == (303, "/compare")
        cookie = good.headers["set-cookie"]
        assert cookie.startswith("ansorpy_session_8720=")
        assert key not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert running.client.get("/jobs", follow_redirects=False).status_code == 200
        kept = dict(running.client.cookies)
        running.client.post("/logout", headers=own)
        assert running.client.get("/jobs", follow_redirects=False).status_code == 303
        running.client.cookies.update(kept)  # a copy of the cookie is no longer a session
        assert running.client.get("/jobs", follow_redirects=False).status_code == 303


def test_over_https_the_cookie_is_bound_to_the_host(url: str, engine: Engine) -> None:
    with transaction(engine) as tx:
        key, _ = keys.create(tx, "local", ("read",), now(tx))
    with service(url) as running:
        running.client.base_url = "https://localhost"
        headers = {"Origin": "https://localhost"}
        good = running.client.post("/login", data={"key": key}, headers=headers)
        cookie = good.history[0].headers["set-cookie"]
        assert cookie.startswith("__Host-ansorpy_session_8720=")
        assert all(part in cookie for part in ("Secure", "Path=/", "HttpOnly"))
        assert "Domain" not in cookie
        assert good.status_code == 200
        out = running.client.post("/logout", headers=headers, follow_redirects=False)
        assert "Secure" in out.headers["set-cookie"]
        assert running.client.get("/jobs", follow_redirects=False).status_code == 303


def test_signing_in_is_counted(url: str, engine: Engine) -> None:
    with transaction(engine) as tx:
        keys.create(tx, "local", ("read",), now(tx))
    with service(url, denied_rate="3/day") as running:
        statuses = [running.client.post("/login", data={"key": "x"}).status_code for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]


@given(st.one_of(st.text(), st.from_regex(r"[/\\]{1,3}[a-z.:/\\]{0,12}")))
def test_login_redirects_to_this_site_only(place: str) -> None:
    found = own_path(place)
    assert found == HOME or re.fullmatch(r"/([^/\\].*)?", found)


def test_words_of_requests_are_escaped(url: str) -> None:
    with service(url) as running:
        job_id = poison(running)
        for path in (
            f"/jobs/{job_id}",
            f"/jobs/{job_id}/explain",
            f"/jobs/{job_id}/why",
            f"/jobs/{job_id}?tab=trials",
            f"/jobs/{job_id}?tab=request",
            "/machines",
            "/jobs",
            f"/compare?a={job_id}&b={job_id}",
        ):
            page = running.client.get(path)
            assert page.status_code == 200
            assert "<script>w" not in page.text
            assert "<img" not in page.text
        shown = ("", "?tab=trials", "?tab=request")
        pages = [running.client.get(f"/jobs/{job_id}{query}").text for query in shown]
        counts = [page.count("&lt;script&gt;window.evil") for page in pages]
        assert counts == [
            2,
            2,
            2,
        ]  # the reason of the job, and a failure or the text of the request


def test_pages_have_no_inline_code_and_no_foreign_links() -> None:
    for path in (WEB / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.search(
            r"<script(?![^>]*\bsrc=\"/(?:static|docs)/)|<style|\sstyle=|\son[a-z]+=", text
        )
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text), path
    for path in (WEB / "static").glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://",
                             path.read_text()), path  # fmt: skip
    vendor = WEB / "static" / "vendor"
    assert "MIT" in (vendor / "uplot" / "LICENSE").read_text()
    assert "Apache License" in (vendor / "swagger-ui" / "LICENSE").read_text()


def palette(css: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{3,6})\b", css))


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(c * 2 for c in color[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read_in_both_modes() -> None:
    css = (WEB / "static" / "dashboard.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    for colors in (palette(light), palette(light) | palette(dark.split("}")[0])):
        pairs = [(on, back) for on in ("--text", "--dim", "--accent", "--good", "--bad", "--wait")
                 for back in ("--page", "--card", "--faint")]  # fmt: skip
        for on, back in [*pairs, ("--on-accent", "--accent")]:
            a, b = sorted((luminance(colors[on]), luminance(colors[back])))
            assert (b + 0.05) / (a + 0.05) >= 4.5, (on, back)  # WCAG 2.2, 1.4.3 AA


def test_template_filters_format_numbers() -> None:
    assert [latency(s) for s in (None, 2.5, 1.234e-3, 45.6e-6, 123e-9)] == [
        "–", "2.50 s", "1.23 ms", "45.6 µs", "123 ns",  # noqa: RUF001
    ]  # fmt: skip
    assert [span(s) for s in (5, 65, 7500, 90000)] == ["5 s", "1 min 5 s", "2 h 5 min", "1 d"]
