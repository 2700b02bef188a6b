import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from sqlalchemy import Engine, func, select

from ansorpy.errors import SpecError
from ansorpy.server.access import keys, sessions
from ansorpy.server.access.authentication import KEY, SESSION, Authenticator, bearer
from ansorpy.server.access.errors import RateLimitError, UnauthenticatedError
from ansorpy.server.access.rate_limits import RateLimiter
from ansorpy.server.access.startup import is_loopback
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import ApiKeyRow, SessionRow, TenantRow
from tests.server.service import MM, service


def key_of(engine: Engine, *scopes: str, tenant: str = "a", lifetime_s: float | None = None) -> str:
    with transaction(engine) as tx:
        now_s = now(tx)
        ends_s = None if lifetime_s is None else now_s + lifetime_s
        return keys.create(tx, tenant, scopes or ("admin",), now_s, expires_s=ends_s)[0]


def test_a_key_is_256_random_bits_and_only_its_digest_is_stored(engine: Engine) -> None:
    first, second = key_of(engine), key_of(engine)
    assert first != second
    assert len(first.split("_", 2)[2]) >= 43  # base64 of 32 bytes
    with transaction(engine) as tx:
        rows = tx.scalars(select(ApiKeyRow)).all()
        for row in rows:
            stored = " ".join(str(value) for value in vars(row).values())
            assert first not in stored
            assert second not in stored
        assert {row.sha256 for row in rows} == {keys.digest(first), keys.digest(second)}


def test_scopes_include_lower_scopes(engine: Engine) -> None:
    for scope, reach in (
        ("read", {"read"}),
        ("tune", {"read", "tune"}),
        ("admin", set(keys.SCOPES)),
    ):
        with transaction(engine) as tx:
            grant = keys.check(tx, keys.create(tx, "a", (scope,), 0.0)[0], 1.0)
        assert grant is not None
        assert set(grant.scopes) == reach


@pytest.mark.parametrize("scopes", [(), ("write",), ("read", "root")])
def test_an_unknown_scope_is_refused(engine: Engine, scopes: tuple[str, ...]) -> None:
    with transaction(engine) as tx, pytest.raises(SpecError, match="expected read, tune or admin"):
        keys.create(tx, "a", scopes, 0.0)


def test_a_key_ends_when_it_expires_is_revoked_or_its_tenant_is_disabled(engine: Engine) -> None:
    with transaction(engine) as tx:
        short, _ = keys.create(tx, "a", ("read",), 0.0, expires_s=10.0)
        gone, row = keys.create(tx, "a", ("read",), 0.0)
        other, _ = keys.create(tx, "b", ("read",), 0.0)
        assert keys.check(tx, short, 9.0) is not None
        assert keys.check(tx, short, 10.0) is None
        keys.revoke(tx, row.prefix, 5.0)
        assert keys.check(tx, gone, 5.0) is None
        assert keys.check(tx, other, 5.0) is not None
        tx.scalars(select(TenantRow).where(TenantRow.name == "b")).one().disabled_s = 5.0
        tx.flush()
        assert keys.check(tx, other, 5.0) is None
        for wrong in ("", "ansorpy_x_y", gone[:-1], gone + "x", "x" * 1000, "ä" * 40):
            assert keys.check(tx, wrong, 1.0) is None


def test_a_rotated_key_has_the_lifetime_of_the_old_one(engine: Engine) -> None:
    with transaction(engine) as tx:
        old, row = keys.create(tx, "a", ("read", "tune"), 0.0, expires_s=100.0, label="ci")
        new, fresh = keys.rotate(tx, row.prefix, 50.0, overlap_s=10.0)
        assert (fresh.scopes, fresh.label, fresh.expires_s) == (row.scopes, "ci", 150.0)
        assert keys.check(tx, old, 59.0) is not None
        assert keys.check(tx, old, 60.0) is None
        assert keys.check(tx, new, 149.0) is not None
        with pytest.raises(SpecError, match="because 0 valid ones begin with"):
            keys.rotate(tx, row.prefix, 70.0, 0.0)


def test_a_revoked_key_is_refused_within_seconds(engine: Engine) -> None:
    clock = [0.0]
    authenticator = Authenticator(engine, None, clock=lambda: clock[0])
    key = key_of(engine)
    assert authenticator.authenticate(key).tenant == "a"
    with transaction(engine) as tx:
        keys.revoke(tx, key.split("_")[1], now(tx))
    assert authenticator.authenticate(key).tenant == "a"  # from the cache
    clock[0] = 5.0
    with pytest.raises(UnauthenticatedError, match="because it is unknown, expired or revoked"):
        authenticator.authenticate(key)


def test_invalid_secrets_are_looked_up_during_a_write_transaction(
    engine: Engine,
) -> None:
    authenticator = Authenticator(engine, None)
    key = key_of(engine)
    authenticator.authenticate(key)  # stores when it was used
    with transaction(engine) as tx, ThreadPoolExecutor(1) as other:
        tx.scalars(select(TenantRow).where(TenantRow.name == "a")).one().max_queued_jobs = 7
        tx.flush()
        for secret, kind in (("wrong", KEY), ("wrong", SESSION)):
            with pytest.raises(UnauthenticatedError):
                other.submit(authenticator.authenticate, secret, kind).result(
                    timeout=20
                )  # SQLite waits 30 s
        authenticator.forget(key, KEY)
        assert other.submit(authenticator.authenticate, key).result(timeout=20).tenant == "a"


def test_a_session_ends_with_its_key_and_is_no_bearer_token(url: str, engine: Engine) -> None:
    key = key_of(engine, "read")
    authenticator = Authenticator(engine, None, clock=count(step=6).__next__)  # caches nothing
    session = authenticator.sign_in(key)
    assert (
        authenticator.authenticate(session, SESSION).key_id
        == authenticator.authenticate(key).key_id
    )
    with pytest.raises(UnauthenticatedError):
        authenticator.authenticate(session, KEY)
    with pytest.raises(UnauthenticatedError):
        authenticator.authenticate(key, SESSION)
    with transaction(engine) as tx:
        assert sessions.check(tx, session, now(tx) + sessions.KEEP_S) is None
        keys.revoke(tx, key.split("_")[1], now(tx))
    with pytest.raises(UnauthenticatedError, match="cannot accept this session"):
        authenticator.authenticate(session, SESSION)
    with pytest.raises(UnauthenticatedError):
        authenticator.sign_in(key)


def test_the_oldest_sessions_of_a_key_are_deleted(engine: Engine) -> None:
    key = key_of(engine)
    key_id = Authenticator(engine, None).authenticate(key).key_id
    assert key_id is not None
    with transaction(engine) as tx:
        secrets = [sessions.begin(tx, key_id, 1000.0 + n) for n in range(sessions.MOST + 2)]
        found = [sessions.check(tx, secret, 1000.0) is not None for secret in secrets]
        assert found == [False, False, *[True] * sessions.MOST]
        sessions.begin(tx, key_id, 1000.0 + sessions.KEEP_S + sessions.MOST + 2)
        assert tx.scalar(select(func.count()).select_from(SessionRow)) == 1


def test_other_schemes_than_bearer_are_refused() -> None:
    assert bearer("Bearer abc") == bearer("bearer  abc ") == "abc"
    assert bearer(None) is None
    with pytest.raises(UnauthenticatedError, match="Bearer"):
        bearer("Basic YTpi")


def test_with_keys_every_request_needs_one(url: str, engine: Engine) -> None:
    key = key_of(engine, "read")
    with service(url) as running:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {key}"}):
            reply = running.client.get("/v1/jobs", headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (401, "key")
            assert reply.headers["www-authenticate"] == "Bearer"
        headers = {"Authorization": f"Bearer {key}"}
        assert running.client.get("/v1/jobs", headers=headers).status_code == 200
        for name in ("ansorpy_key", "ansorpy_session_8720"):
            running.client.cookies.set(name, key)
        assert running.client.get("/v1/jobs").status_code == 401  # keys are refused in cookies
        running.client.cookies.clear()
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert running.client.get(path).status_code == 200


def test_the_scope_of_a_key_limits_its_requests(url: str, engine: Engine) -> None:
    allowed = {
        "read": {"/v1/jobs": 200, "POST": 403, "/v1/workers": 403, "/metrics": 403},
        "tune": {"/v1/jobs": 200, "POST": 202, "/v1/workers": 403, "/metrics": 403},
        "admin": {"/v1/jobs": 200, "POST": 202, "/v1/workers": 200, "/metrics": 200},
    }
    for scope, wanted in allowed.items():
        with service(url, {"Authorization": f"Bearer {key_of(engine, scope)}"}) as running:
            for path, status in wanted.items():
                if path == "POST":
                    reply = running.client.post("/v1/jobs", json={"text": MM, "fresh": True})
                else:
                    reply = running.client.get(path)
                assert reply.status_code == status, (scope, path)
                if status == 403:
                    assert reply.json()["code"] == "scope"


@pytest.mark.parametrize("changes", [{"host": "0.0.0.0"}, {"host": "::"}, {"require_keys": True}])
def test_without_keys_only_loopback_is_served(
    url: str, engine: Engine, changes: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match="ansorpy keys create"), service(url, **changes):
        pass
    key_of(engine)
    with service(url, **changes) as running:
        assert running.client.get("/v1/jobs").status_code == 401


def test_an_expired_key_is_refused_at_start(url: str, engine: Engine) -> None:
    key_of(engine, lifetime_s=-1.0)
    with pytest.raises(SpecError, match="ansorpy keys create"), service(url, host="0.0.0.0"):
        pass


@pytest.mark.parametrize("end", ["expired", "revoked"])
def test_keys_stay_required_after_all_have_expired(url: str, engine: Engine, end: str) -> None:
    key = key_of(engine, lifetime_s=-1.0 if end == "expired" else None)
    if end == "revoked":
        with transaction(engine) as tx:
            keys.revoke(tx, key.split("_")[1], now(tx))
    with pytest.raises(SpecError, match="none of the 1 API keys") as refused, service(url):
        pass
    assert "`ansorpy keys create`" in str(refused.value)
    another = {"Authorization": f"Bearer {key_of(engine)}"}
    with service(url) as running:
        assert running.client.get("/v1/jobs").status_code == 401
        assert running.client.get("/v1/jobs", headers=another).status_code == 200


def test_a_service_with_keys_opens_by_an_explicit_setting_only(url: str, engine: Engine) -> None:
    key_of(engine, lifetime_s=-1.0)
    with service(url, without_keys=True) as running:
        assert running.client.get("/v1/jobs").status_code == 200
        evil = running.client.get("/v1/jobs", headers={"Host": "evil.example"})
        assert evil.status_code == 421
    for changes, message in (
        ({"host": "0.0.0.0"}, "expected a loopback address"),
        ({"require_keys": True}, "contradict one another"),
    ):
        with pytest.raises(SpecError, match=message), service(url, without_keys=True, **changes):
            pass


def test_a_key_is_read_from_a_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("k" * 40 + "\n")
    with service(url, host="0.0.0.0", admin_key_file=file) as running:
        headers = {"Authorization": "Bearer " + "k" * 40}
        assert running.client.get("/v1/workers", headers=headers).status_code == 200
        assert running.client.get("/v1/workers").status_code == 401
    with service(url, host="0.0.0.0", admin_key_file=file):
        pass  # a second start finds the key in the database
    for text in ("short", "ä" * 40):
        file.write_text(text)
        with pytest.raises(SpecError, match="ADMIN_KEY_FILE"), service(url, admin_key_file=file):
            pass


def test_invalid_keys_have_a_rate_limit(url: str, engine: Engine) -> None:
    good = {"Authorization": f"Bearer {key_of(engine)}"}
    with service(url, denied_rate="3/day") as running:
        wrong = {"Authorization": "Bearer wrong"}
        codes = [running.client.get("/v1/jobs", headers=wrong).status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert running.client.get("/v1/jobs", headers=good).status_code == 200


def test_rates_are_per_kind_and_per_caller(url: str) -> None:
    with service(url, read_rate="2/day", tune_rate="1/day") as running:  # no new minute between
        reads = [running.client.get("/v1/jobs") for _ in range(3)]
        assert [reply.status_code for reply in reads] == [200, 200, 429]
        assert reads[2].json()["code"] == "rate"
        assert 1 <= int(reads[2].headers["retry-after"]) <= 86_400
        posts = [running.client.post("/v1/jobs", content=b"{}").status_code for _ in range(2)]
        assert posts == [422, 429]  # counted before the body is parsed
    rates = RateLimiter({"read": "1/day"})
    rates.hit("read", "a")
    rates.hit("read", "b")
    with pytest.raises(RateLimitError, match="expected at most 1 per 1 day"):
        rates.hit("read", "a")


def test_trials_per_day_are_limited(url: str) -> None:
    with service(url, max_trials_per_day=100) as running:
        running.submit(budget={"trials": 60}, fresh=True)
        body = {"text": MM, "budget": {"trials": 41}, "fresh": True}
        refused = running.client.post("/v1/jobs", json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota")
        assert "100 trials" in refused.json()["detail"]
        claimed = running.claim()
        running.finish(claimed)  # a cancelled job counts its used trials only
        assert running.client.post("/v1/jobs", json=body).status_code == 202
        assert len(running.client.get("/v1/jobs").json()["jobs"]) == 2


def test_limits_of_a_tenant_override_the_settings(url: str, engine: Engine) -> None:
    key = {"Authorization": f"Bearer {key_of(engine)}"}
    with transaction(engine) as tx:
        row = tx.scalars(select(TenantRow).where(TenantRow.name == "a")).one()
        row.max_queued_jobs, row.max_seconds_per_day = 2, 10.0
    with service(url, key) as running:
        body = {"text": MM, "fresh": True, "budget": {"seconds": 8}}
        codes = [running.client.post("/v1/jobs", json=body).status_code for _ in range(2)]
        assert codes == [202, 429]


def test_without_keys_the_host_must_be_this_machine(url: str, engine: Engine) -> None:
    with service(url) as running:
        for host in ("evil.example", "evil.example:8720", "127.0.0.1.evil.example", "", "a b"):
            reply = running.client.get("/v1/jobs", headers={"Host": host})
            assert (reply.status_code, reply.json()["code"]) == (421, "host"), host
        for host in ("localhost:8720", "LOCALHOST", "127.0.0.1", "[::1]:8720"):
            assert running.client.get("/v1/jobs", headers={"Host": host}).status_code == 200
    key = {"Authorization": f"Bearer {key_of(engine)}", "Host": "tuner.example"}
    with service(url, key) as running:
        assert running.client.get("/v1/jobs").status_code == 200


def test_a_page_of_another_site_changes_nothing(url: str) -> None:
    with service(url) as running:
        for origin in (
            "http://evil.example", "null", "http://localhost:99", "http://localhost.",
            "x://localhost", "ftp://localhost", "//localhost", "localhost", "",
        ):  # fmt: skip
            headers = {"Origin": origin}
            reply = running.client.post("/v1/jobs", json={"text": MM}, headers=headers)
            assert (reply.status_code, reply.json()["code"]) == (403, "origin"), origin
            assert "access-control-allow-origin" not in reply.headers
        for own in ("http://localhost", "HTTP://LOCALHOST", "https://localhost"):
            reply = running.client.post("/v1/jobs", json={"text": MM}, headers={"Origin": own})
            assert reply.status_code == 202, own
        for second in ("http://evil.example", "http://localhost"):
            both = [("Origin", "http://localhost"), ("Origin", second)]
            reply = running.client.post("/v1/jobs", json={"text": MM}, headers=both)
            assert (reply.status_code, reply.json()["code"]) == (403, "origin")
        running.client.base_url = "https://localhost"
        plain = {"Origin": "http://localhost"}
        assert running.client.post("/v1/jobs", json={"text": MM}, headers=plain).status_code == 403


JSON_TYPES = ("application/json", "application/json; charset=utf-8", "APPLICATION/JSON")
CURL = "application/x-www-form-urlencoded"


def test_a_job_needs_a_json_content_type(url: str) -> None:
    body = json.dumps({"text": MM}).encode()
    browser = {"Origin": "http://localhost"}

    def sent(kind: str | None, headers: dict[str, str]) -> Response:
        given = headers if kind is None else {**headers, "Content-Type": kind}
        reply: Response = running.client.post("/v1/jobs", content=body, headers=given)
        return reply

    with service(url) as running:
        for headers in ({}, browser, {"Sec-Fetch-Site": "same-origin"}):
            assert {sent(kind, headers).status_code for kind in JSON_TYPES} == {202}
            for kind in ("text/plain", "multipart/form-data; boundary=x", "text/json", "x"):
                reply = sent(kind, headers)
                assert (reply.status_code, reply.json()["code"]) == (415, "type"), kind
                assert reply.json()["detail"].endswith("expected application/json")
        assert {sent(kind, {}).status_code for kind in (None, CURL)} == {202}  # programs
        assert {sent(kind, browser).status_code for kind in (None, CURL)} == {415}


def test_every_reply_carries_the_headers_that_keep_browsers_safe(url: str) -> None:
    with service(url) as running:
        for path in ("/v1/jobs", "/nothing", "/docs", "/static/dashboard.css"):
            headers = running.client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'self'" in headers["content-security-policy"]
            assert len(headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("host", "answer"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x", False)],
)
def test_loopback_addresses_are_recognised(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_a_valid_key_is_cached(url: str, engine: Engine) -> None:
    authenticator = Authenticator(engine, None, clock=time.monotonic)
    key = key_of(engine)
    assert authenticator.cached(key) is None
    principal = authenticator.authenticate(key)
    assert authenticator.cached(key) is principal
