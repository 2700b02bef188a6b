"""The verdict: the sentence, its level, and the spread within which two times are alike."""

from dataclasses import replace

import pytest

from ansorpy import verdict as module
from ansorpy.records import Race, RacedOwn
from ansorpy.verdict import Judgment, Peer, alike, peer_of, verdict_of_race

ORT = Peer("ONNX Runtime 1.32.0", 58.3e-6)
BASE = Judgment("bundle", 48.1e-6, (ORT,), 1, "ONNX Runtime 1.32.0", ("search longer",))


def test_a_faster_result_says_by_how_much_than_whom() -> None:
    assert str(BASE) == (
        "1.21x faster than ONNX Runtime 1.32.0 (48.1 us against 58.3 us, 1 thread),"
        " verified against ONNX Runtime 1.32.0"
    )
    assert (BASE.level, BASE.peer) == ("green", ORT)


def test_a_slower_result_says_whether_to_keep_the_library() -> None:
    slower = replace(BASE, ours_s=82e-6, threads=2)
    assert str(slower) == (
        "ONNX Runtime 1.32.0 is 1.41x faster than this bundle (82 us against 58.3 us, 2 threads),"
        " verified against ONNX Runtime 1.32.0: keep ONNX Runtime 1.32.0, or search longer"
    )
    assert slower.level == "amber"
    assert str(replace(slower, remedies=())).endswith(": keep ONNX Runtime 1.32.0")


def test_the_fastest_peer_decides() -> None:
    numpy, torch = Peer("NumPy", 9e-6), Peer("PyTorch 2.9", 8e-6)
    assert replace(BASE, peers=(ORT, numpy, torch)).peer == torch


def test_times_within_the_spread_are_alike() -> None:
    same = replace(BASE, peers=(replace(ORT, alike=True),))
    assert str(same).startswith("as fast as ONNX Runtime 1.32.0 (48.1 us against 58.3 us, 1 thread")
    assert same.level == "none"


def test_a_busy_machine_is_amber_for_any_winner() -> None:
    busy = replace(BASE, slowdown=2.7)
    assert busy.level == "amber"
    assert str(busy).endswith("; the machine was busy (2.7 times as slow as usual): run it again")
    slower = str(replace(busy, ours_s=82e-6))
    assert "keep ONNX Runtime 1.32.0, or the machine was busy" in slower


def test_without_a_peer_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = replace(BASE, peers=(), missing="no race was asked for")
    assert str(alone) == (
        "48.1 us per call, not compared with a library: no race was asked for; verified against"
        " ONNX Runtime 1.32.0"
    )
    assert (alone.ratio, alone.level) == (None, "none")
    monkeypatch.setattr(module, "with_version", lambda package: "")
    left = replace(BASE, peers=(Peer("NumPy", None, "it has no erf"),))
    assert "NumPy left out (it has no erf), pip install onnxruntime; verified" in str(left)


def test_the_object_has_the_sentence_and_the_numbers() -> None:
    told = BASE.as_object()
    assert told["sentence"] == str(BASE)
    assert told["ratio"] == pytest.approx(58.3 / 48.1)
    assert told["peers"][0] == {
        "name": ORT.name, "seconds": ORT.seconds, "note": "", "alike": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1.0, 1.1, 1.2), (1.1, 1.15, 1.3), True),  # the middle halves overlap
        ((1.0, 1.01, 1.02), (1.1, 1.11, 1.12), False),
        ((1.0,), (1.015,), True),  # within 2 %
        ((1.0,), (1.03,), False),
    ],
)
def test_samples_are_alike_if_their_middle_halves_overlap(
    one: tuple[float, ...], other: tuple[float, ...], same: bool
) -> None:
    assert alike(one, other) is same
    assert alike(other, one) is same


def test_a_peer_without_samples_has_its_reason() -> None:
    assert peer_of("NumPy", (1.0,), (), 0.0, "no erf") == Peer("NumPy", None, "no erf")


def test_the_verdict_on_a_kernel_has_libraries_numpy_and_own_kernels() -> None:
    race = Race(
        winner="tuned", delivered="tuned", tuned_s=(1e-3, 1.1e-3), naive_s=(0.5,),
        numpy_s=(4e-3, 4.1e-3), span=(0.0, 1.0), tolerances=(1e-6,), magnitude=8, trials=64,
        seconds=3.0, request="r", own=(RacedOwn("mine", (2e-3, 2.1e-3)),),
        peers=(RacedOwn("PyTorch 2.9", (), "no time"), RacedOwn("ONNX Runtime 1.32.0", (3e-3,))),
    )  # fmt: skip
    found = verdict_of_race(race, 2)
    names = [(one.name, one.seconds) for one in found.peers]
    assert names == [
        ("PyTorch 2.9", None), ("ONNX Runtime 1.32.0", 3e-3), ("NumPy", 4e-3), ("your mine", 2e-3),
    ]  # fmt: skip
    assert str(found).startswith("2.00x faster than your mine (1 ms against 2 ms, 2 threads)")
