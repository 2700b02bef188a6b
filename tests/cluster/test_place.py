"""The addresses of clusters, and the secret."""

from pathlib import Path

import pytest

from ansorpy.cluster.place import core_sets, head_address, named_cluster
from ansorpy.cluster.ray import environment
from ansorpy.cluster.ray.environment import SETTINGS, TOKEN_FILE, ray_environment
from ansorpy.cluster.ray.node import address_towards, has_node, head_command, slot_command
from ansorpy.errors import SpecError


@pytest.mark.parametrize("text", ["here:4", "10.0.0.1:6379", "head.inside:6379", "[fe80::1]:1"])
def test_addresses_of_clusters(text: str) -> None:
    assert named_cluster({"ANSORPY_CLUSTER": f" {text} "}) == text
    assert named_cluster({}) == ""


@pytest.mark.parametrize("text", ["here", "here:0", "10.0.0.1", "ray://x:1", "a b:1", "x:1;rm"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="expected HOST:PORT of a cluster's head, or here:N"):
        named_cluster({"ANSORPY_CLUSTER": text})


def test_core_sets_are_whole() -> None:
    assert core_sets((0, 1, 2, 3, 4), 2) == [(0, 1), (2, 3)]
    assert core_sets((0, 1), 4) == [(0, 1)]


def test_no_process_of_ray_starts_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda _: object())
    secret = tmp_path / "secret"
    with pytest.raises(SpecError, match=f"because {TOKEN_FILE} names no file; expected a file"):
        ray_environment({TOKEN_FILE: str(secret)})
    secret.write_text("short")
    with pytest.raises(SpecError, match="too short; expected at least 16 characters"):
        ray_environment({TOKEN_FILE: str(secret)})
    secret.write_text("0123456789abcdef\n")
    found = ray_environment({TOKEN_FILE: str(secret), "RAY_AUTH_TOKEN": "x", "PATH": "/bin"})
    assert found == {
        TOKEN_FILE: str(secret), "PATH": "/bin", **SETTINGS, "RAY_AUTH_TOKEN_PATH": str(secret),
    }  # fmt: skip


def test_a_cluster_without_ray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda _: None)
    with pytest.raises(SpecError, match=r"Ray is not installed; expected ansorpy\[ray\]"):
        ray_environment({})


def test_a_head_has_no_dashboard_and_measures_nothing() -> None:
    command = head_command(6400)
    assert {"--head", "--port=6400", "--num-cpus=0", "--include-dashboard=false"} <= {*command}
    found = slot_command("10.0.0.1:6400", 2, "0123")
    assert '--resources={"ansorpy_slot_0": 1, "ansorpy_slot_1": 1}' in found
    assert "--address=10.0.0.1:6400" in found


def test_a_node_of_a_cluster_is_known_by_its_head() -> None:
    raylet = "/ray/raylet/raylet\0--gcs-address=127.0.0.1:6379\0--node_id=0\0"
    assert has_node(raylet, "localhost:6379")
    assert not has_node(raylet, "127.0.0.1:6380")
    assert not has_node(raylet, "10.255.0.1:6379")
    assert not has_node(raylet.replace("raylet/raylet", "gcs_server"), "127.0.0.1:6379")


def test_a_machine_knows_its_address_towards_a_head() -> None:
    assert address_towards("127.0.0.1:6379") == "127.0.0.1"
    with pytest.raises(SpecError, match=r"cannot reach no\.such\.host\.invalid:6379 because"):
        address_towards("no.such.host.invalid:6379")


@pytest.mark.parametrize("text", ["here:2", "10.0.0.1", ""])
def test_slots_of_this_machine_are_no_cluster_for_others(text: str) -> None:
    assert head_address("10.0.0.1:6379 ") == "10.0.0.1:6379"
    with pytest.raises(SpecError, match="as a cluster because it is no address; expected"):
        head_address(text)
