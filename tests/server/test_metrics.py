from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.service import MM, Service, service


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def samples(running: Service) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = running.client.get("/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_jobs_by_state(running: Service) -> None:
    job_id = running.submit()
    for _ in range(3):
        running.client.get(f"/v1/jobs/{job_id}")
    running.client.get("/nothing/" + "x" * 500)
    running.client.post("/v1/jobs", content=b"{}")
    found = samples(running)
    route = "/v1/jobs/{job_id}"
    read = (("method", "GET"), ("route", route), ("status", "200"))
    assert found["ansorpy_requests_total", read] == 3
    nowhere = (("method", "GET"), ("route", "(none)"), ("status", "404"))
    assert found["ansorpy_requests_total", nowhere] == 1
    assert found["ansorpy_request_seconds_count", (("route", route),)] == 3
    assert found["ansorpy_jobs", (("state", "queued"),)] == 1
    assert found["ansorpy_refused_total", (("code", "shape"),)] == 1
    assert found["ansorpy_refused_total", (("code", "unknown"),)] == 1
    assert not any("xxxx" in str(key) for key in found)


def test_labels_do_not_grow_with_requests(running: Service) -> None:
    counts = []
    for round_ in range(3):
        for n in range(10):
            running.client.get(f"/nothing/{round_}/{n}")
            running.client.get(f"/v1/jobs/{round_:016x}{n:016x}")
            running.client.request(f"METHOD{round_}{chr(65 + n)}", "/v1/jobs")
        counts.append(len(samples(running)))
    assert counts[1] == counts[2]


def test_every_application_counts_for_itself(url: str) -> None:
    with service(url) as first:
        first.client.post("/v1/jobs", json={"text": MM})
        with service(url) as second:
            assert not any(name == "ansorpy_requests_total" for name, _ in samples(second))
