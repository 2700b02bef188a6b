"""The operators of the harness exist at full size, and peers have a form of each."""

from types import SimpleNamespace

import pytest

from ansorpy.target import cuda_target
from ansorpy.te.analysis.flops import flop_count
from benchmarks.cuda.kernels import candidates
from benchmarks.cuda.operators import OPERATORS, SMALL_COUNTS, Operator, operators_of
from benchmarks.cuda.peers import form, peers_of
from tests.emulation import device as emulated

EVERY = [one for operators in OPERATORS.values() for one in operators]
TORCH = SimpleNamespace(nn=SimpleNamespace(functional=None))


def test_names_are_unique_and_small_sizes_are_small() -> None:
    assert len({one.name for one in EVERY}) == len(EVERY)
    for one in EVERY:
        full, small = one.dag(emulated=False), one.dag(emulated=True)
        assert flop_count(small) < 50_000 < flop_count(full)
        assert [len(t.shape) for t in small.placeholders] == [
            len(t.shape) for t in full.placeholders
        ]
    for section, operators in OPERATORS.items():
        assert operators_of(section, emulated=False) == operators
        assert len(operators_of(section, emulated=True)) <= SMALL_COUNTS[section]


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_a_peer_has_a_form_of_every_operator(one: Operator) -> None:
    assert callable(form(TORCH, one.name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul 4097", "softmax 1 GB", "column sum 64 MB", "conv2d 7"])
def test_an_operator_has_own_kernels_at_full_size(name: str) -> None:
    (one,) = [one for one in EVERY if one.name == name]
    target = cuda_target("sm_90")
    made = candidates(name, one.full(), target, 2, emulated.build_texts)
    assert len(made) == 2
    for kernel in made:
        assert kernel.facts
        assert all(at.threads <= target.max_threads for at in kernel.code.launches)


def test_peers_that_are_not_there_say_so() -> None:
    matmul = OPERATORS["matmul"][0]
    names = [peer.name for peer in peers_of(matmul.name, matmul.small(), emulated=True)]
    assert names == ["torch", "inductor", "triton"]
    for peer in peers_of("softmax 64 MB", matmul.small(), emulated=False):
        if peer.call is None:
            assert peer.name in ("torch", "inductor")
            assert peer.missing
