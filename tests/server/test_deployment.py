"""The compose file: its hardening, and its commands against a real PostgreSQL."""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, make_url, text

from ansorpy.cluster.place import named_cluster
from ansorpy.cluster.ray.environment import TOKEN_FILE
from ansorpy.errors import SpecError
from ansorpy.server.settings import ServiceSettings
from tests.server.databases import Cluster
from tests.server.process import free_port

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
CLUSTER = ("cluster-head", "slot")
MM = "def mm(float(32,32) A, float(32,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def test_the_password_comes_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss/w:rd\n")
    url = "postgresql://ansorpy@database/ansorpy"
    settings = ServiceSettings(database_url=url, database_password_file=file)
    found = make_url(settings.url)
    assert (found.password, found.username, found.host) == ("p@ss/w:rd", "ansorpy", "database")
    missing = ServiceSettings(database_url=url, database_password_file=tmp_path / "none")
    with pytest.raises(SpecError, match="ANSORPY_DATABASE_PASSWORD_FILE"):
        _ = missing.url


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].split(":")[0] not in ("", "0", "root")
    assert any(str(place).startswith("/tmp") for place in service["tmpfs"])
    assert "privileged" not in service
    if name != "migrate":
        assert "healthcheck" in service


def test_secrets_are_files_only() -> None:
    for name, service in SERVICES.items():
        for secret in service["secrets"]:
            assert secret in COMPOSE["secrets"], name
        for variable, value in service["environment"].items():
            if re.search("PASSWORD|KEY|SECRET|TOKEN", variable):
                assert variable.endswith("_FILE"), variable
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())


def test_services_start_after_the_migration() -> None:
    assert SERVICES["migrate"]["command"] == ["db", "upgrade"]
    for name in ("api", "worker"):
        waits = SERVICES[name]["depends_on"]["migrate"]
        assert waits == {"condition": "service_completed_successfully"}


def test_only_the_api_is_published_and_only_on_this_machine() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["api"]
    assert SERVICES["api"]["ports"] == ["${ANSORPY_PUBLISH:-127.0.0.1:8720}:8720"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name in ("database", "migrate"):
        assert SERVICES[name]["networks"] == ["inside"]


def test_a_cluster_is_a_profile_with_a_secret_and_a_network_of_its_own() -> None:
    assert [name for name, service in SERVICES.items() if "profiles" in service] == [*CLUSTER]
    assert COMPOSE["networks"]["cluster"] == {"internal": True}
    assert SERVICES["worker"]["networks"] == ["inside", "cluster"]
    for name in CLUSTER:
        service = SERVICES[name]
        assert service["profiles"] == ["cluster"]
        assert service["networks"] == ["cluster"], "no member of it reaches the database"
        assert service["secrets"] == ["cluster_token"]
        assert set(service["environment"]) == {TOKEN_FILE}
        assert "volumes" not in service
    for name in (*CLUSTER, "worker"):
        service = SERVICES[name]
        assert service["environment"][TOKEN_FILE] == "/run/secrets/cluster_token"
        assert service["shm_size"] == "512m"
        assert any("exec" in place for place in service["tmpfs"])
    assert SERVICES["worker"]["environment"]["ANSORPY_CLUSTER"] == "${ANSORPY_CLUSTER:-}"
    assert SERVICES["slot"]["command"][-1] == "cluster-head:6379"


def test_without_the_profile_a_worker_has_no_cluster() -> None:
    assert named_cluster({"ANSORPY_CLUSTER": ""}) == ""
    assert named_cluster({"ANSORPY_CLUSTER": "cluster-head:6379"}) == "cluster-head:6379"


@pytest.mark.parametrize("name", ["cluster-head", "slot"])
def test_a_part_of_a_cluster_without_a_secret_is_refused_in_a_sentence(name: str) -> None:
    """The secret that Compose mounts if no file is named is /dev/null."""
    assert COMPOSE["secrets"]["cluster_token"] == {
        "file": "${ANSORPY_CLUSTER_TOKEN_FILE:-/dev/null}"
    }
    with running(name, {TOKEN_FILE: "/dev/null"}) as child:
        assert child.wait(60) == 2


@pytest.mark.parametrize("extra", ["ray"])
def test_the_lock_of_an_extra_has_the_versions_of_the_lock(extra: str) -> None:
    own, more = (
        dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", f"requirements-{extra}.lock")
    )
    assert extra in more
    assert own.items() <= more.items()
    assert f"!requirements-{extra}.lock" in (ROOT / ".dockerignore").read_text().splitlines()


def test_every_volume_is_named_and_declared() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in COMPOSE["volumes"]


def test_several_workers_can_run() -> None:
    assert "container_name" not in SERVICES["worker"]
    assert "ports" not in SERVICES["worker"]


def test_the_page_on_installing_says_the_use_of_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "install.md").read_text()
    used = re.findall(r"[a-z][a-z0-9-]+", page.partition("## Packages")[2])
    assert {re.split(r"[<>=\[]", name)[0] for name in project["dependencies"]} <= set(used)
    for extra in project["optional-dependencies"]:
        assert f"`[{extra}]`" in page


def test_the_lock_holds_every_dependency_by_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    names = {re.split(r"[\[><=]", line)[0].lower() for line in wanted}
    locks = {"": names, "-ray": {*names, "ray"}, "-build": {"hatchling"}}
    for lock, needs in locks.items():
        body = (ROOT / f"requirements{lock}.lock").read_text()
        locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; .*)? \\$", body, re.MULTILINE))
        assert needs <= set(locked), needs - set(locked)
        for block in re.split(r"^(?=[a-z])", body, flags=re.MULTILINE)[1:]:
            assert "--hash=sha256:" in block, block[:60]


def test_docker_compose_accepts_the_file() -> None:
    tools = (["docker", "compose"], ["docker-compose"])
    for tool in tools:
        if shutil.which(tool[0]) is None:
            continue
        if subprocess.run([*tool, "version"], capture_output=True, check=False).returncode == 0:
            done = subprocess.run(
                [*tool, "-f", str(ROOT / "docker-compose.yml"), "--profile", "cluster", "config"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return
    pytest.skip("no docker compose")


@contextmanager
def running(
    name: str, environment: dict[str, str], *more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command of a service with its variables."""
    command = [sys.executable, "-m", "ansorpy", *SERVICES[name]["command"], *more]
    child = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)


@pytest.mark.night
@pytest.mark.db
def test_the_commands_of_the_file_tune_a_job(postgres: Cluster, tmp_path: Path) -> None:
    """Run the commands of the services `migrate`, `api` and `worker` with their variables."""
    password, key = token_hex(24), token_hex(32)
    files = {"database_password": password, "admin_key": key}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    url = make_url(postgres.new_database())
    admin = create_engine(url.set(drivername="postgresql+psycopg"))
    with admin.begin() as tx:
        tx.execute(text(f"CREATE ROLE ansorpy LOGIN PASSWORD '{password}'"))
        tx.execute(text(f'ALTER DATABASE "{url.database}" OWNER TO ansorpy'))
        tx.execute(text("GRANT ALL ON SCHEMA public TO ansorpy"))
    admin.dispose()

    def environment(name: str) -> dict[str, str]:
        given = {
            variable: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)  # Compose's default
            for variable, value in SERVICES[name]["environment"].items()
        }
        asked = make_url(given["ANSORPY_DATABASE_URL"])
        assert (asked.drivername, asked.password) == ("postgresql", None)
        own = url.set(username=asked.username, password=None, drivername="postgresql")
        place = {
            variable: str(tmp_path / value.removeprefix("/run/secrets/"))
            for variable, value in given.items()
            if variable.endswith("_FILE")
        }
        return {**given, **place, "ANSORPY_DATABASE_URL": own.render_as_string()}

    with running("migrate", environment("migrate")) as migrate:
        assert migrate.wait(120) == 0
    port = str(free_port())
    local = ("--host", "127.0.0.1", "--port", port)
    with (
        running("api", environment("api"), *local) as api,
        running("worker", environment("worker")),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http,
    ):
        http.headers["Authorization"] = f"Bearer {key}"
        wait_for(lambda: api.poll() is None and answers(http, "/readyz"))
        assert httpx.get(f"http://127.0.0.1:{port}/v1/jobs").status_code == 401
        job = http.post("/v1/jobs", json={"text": MM, "budget": {"trials": 0}}).json()["id"]
        wait_for(lambda: http.get(f"/v1/jobs/{job}").json()["state"] == "succeeded")
        assert http.get("/v1/workers").json()["workers"][0]["state"] in ("busy", "idle")
        health = [sys.executable, *SERVICES["worker"]["healthcheck"]["test"][2:]]
        whole = {**os.environ, **environment("worker")}
        assert subprocess.run(health, env=whole, check=False).returncode == 0


def answers(http: httpx.Client, path: str) -> bool:
    try:
        return http.get(path).status_code == 200
    except httpx.TransportError:
        return False


def wait_for(happens: Callable[[], bool], limit_s: float = 150.0) -> None:
    end_s = time.monotonic() + limit_s
    while not happens():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.25)


def test_base_images_are_pinned_by_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    named = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    named += [one["image"] for one in SERVICES.values() if not one["image"].startswith("ansorpy:")]
    assert named
    for image in named:
        assert re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image
