import copy
import io
import multiprocessing
import pickle
import sys
import zipfile
from pathlib import Path

import array_api_strict
import numpy as np
import pytest

from ansorpy.artifact import LoadedKernel, load, load_package, unbox
from ansorpy.artifact.load import check_machine
from ansorpy.artifact.needs import lacking, needed_features
from ansorpy.artifact.package import box, parse_digest
from ansorpy.errors import PackageError
from ansorpy.frontends.tc.text import parse
from ansorpy.target import Target
from tests.artifact.test_pack import MM, TWO, packed
from tests.night import night

SHORT = 41  # bytes from one damaged byte to the next


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return packed(parse(MM)[0], tmp_path_factory.mktemp("mm"))[0].read_bytes()


@pytest.fixture(scope="module")
def kernel(data: bytes) -> LoadedKernel:
    return load_package(data, "mm")


def flipped(data: bytes, at: int, mask: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


@pytest.mark.parametrize("step", night((SHORT, 1), [SHORT]))
def test_every_byte_flip_is_refused_even_without_a_digest(data: bytes, step: int) -> None:
    for at in range(0, len(data), step):
        with pytest.raises(PackageError):
            unbox(flipped(data, at, 1 << at % 8), "p")


def test_every_byte_flip_of_the_containers_own_fields_is_refused(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        begins = [info.header_offset for info in archive.infolist()]
        directory = archive.start_dir
    places = {begin + i for begin in begins for i in range(44)} | set(range(directory, len(data)))
    for at in sorted(places):
        for bit in range(8):
            with pytest.raises(PackageError):
                unbox(flipped(data, at, 1 << bit), "p")


def test_with_a_digest_every_byte_flip_is_refused_before_anything_is_read(data: bytes) -> None:
    digest = unbox(data, "p").digest
    for at in range(0, len(data), 7):
        with pytest.raises(PackageError, match=f"expected {digest}"):
            unbox(flipped(data, at, 0xFF), "p", digest)


@pytest.mark.parametrize("cut", [0, 1, 22, 1000])
def test_a_package_that_was_cut_or_lengthened_is_refused(data: bytes, cut: int) -> None:
    with pytest.raises(PackageError):
        unbox(data[:cut], "p")
    with pytest.raises(PackageError):
        unbox(data + b"\0" * (cut + 1), "p")
    with pytest.raises(PackageError):
        unbox(b"\0" * (cut + 1) + data, "p")


def test_a_deflated_package_is_refused_before_it_is_inflated(data: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kernel.py", b"\0" * (1 << 28))
    with pytest.raises(PackageError, match="not stored"):
        unbox(buffer.getvalue(), "p")


def test_another_format_is_refused(data: bytes) -> None:
    package = unbox(data, "p")
    with pytest.raises(PackageError, match="format is not 2"):
        unbox(box(package.files, {**package.manifest, "format": 1}), "p")


@pytest.mark.parametrize(
    "text",
    ["", "sha256:", "ab" * 32, "sha256:" + "AB" * 32, "sha256:" + "a" * 63, "../" + "a" * 64],
)
def test_a_string_that_is_no_digest_is_refused(text: str) -> None:
    with pytest.raises(PackageError, match="64 hex digits"):
        parse_digest(text)
    assert parse_digest("sha256:" + "ab" * 32) == "ab" * 32


ZEN = Target(
    vector_bits=512, features=("aes", "avx2", "avx512bw", "avx512f", "clzero", "fma", "sse4a")
)


def test_a_kernel_needs_exactly_the_features_of_its_vectors_and_source() -> None:
    assert needed_features("", ZEN) == ("avx2", "avx512bw", "avx512f", "fma")
    dot = 'call <16 x i32> @"llvm.x86.avx512.vpdpbusd.512"'
    assert "avx512vnni" in needed_features(dot, ZEN)
    assert needed_features("", Target(vector_bits=128, features=("neon",))) == ("neon",)
    assert lacking(("avx2", "avx512f"), ("avx2", "fma")) == ("avx512f",)


def test_a_kernel_for_another_machine_is_refused(data: bytes) -> None:
    package = unbox(data, "p")
    target = {**package.manifest["target"], "needs": ["avx2", "avx99"]}
    other = unbox(box(package.files, {**package.manifest, "target": target}), "p")
    with pytest.raises(PackageError, match="made for a processor with avx2, avx99, which"):
        check_machine(other, "p", present=("sse2",))
    with pytest.raises(PackageError, match="avx99"):
        load_package(box(package.files, {**package.manifest, "target": target}), "p")
    check_machine(other, "p", present=("avx2", "avx99"))


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7, 6)))
    return a, b


@pytest.mark.slow
def test_arrays_of_another_library_are_returned_as_its_arrays(kernel: LoadedKernel) -> None:
    a, b = inputs()
    there = kernel(array_api_strict.asarray(a), array_api_strict.asarray(b))
    assert type(there) is type(array_api_strict.asarray(a))
    np.testing.assert_allclose(np.from_dlpack(there), a @ b, rtol=1e-5, atol=1e-6)
    mixed = kernel(a, array_api_strict.asarray(b))
    assert type(mixed) is type(there)
    assert type(kernel(a, b)) is np.ndarray


class Producer:
    """A DLPack producer whose library offers no way back."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **arguments: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.mark.slow
def test_a_producer_without_a_library_gets_numpy(kernel: LoadedKernel) -> None:
    a, b = inputs()
    result = kernel(Producer(a), b)
    assert type(result) is np.ndarray
    np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_without_torch_an_operator_of_torch_names_the_extra(
    kernel: LoadedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it raises ImportError
    with pytest.raises(PackageError, match=r"torch is not installed; expected the extra ansorpy\["):
        kernel.as_torch_op()


def test_memory_that_cannot_be_read_is_named(kernel: LoadedKernel) -> None:
    a, b = inputs()
    with pytest.raises(TypeError, match=r"B: on DLPack device \(2, 0\), not in CPU memory"):
        kernel(a, Producer(b, (2, 0)))
    with pytest.raises(TypeError, match="1 arrays were given; expected 2: A, B"):
        kernel(a)


def test_a_list_is_told_to_become_an_array(kernel: LoadedKernel) -> None:
    a, b = inputs()
    told = (
        r"cannot run because A is a list, which NumPy reads as float64; expected an array, as of"
        r" np.asarray\(..., 'float32'\)"
    )
    with pytest.raises(TypeError, match=told):
        kernel(a.tolist(), b)
    with pytest.raises(TypeError, match="B is a list, which NumPy reads as no array; expected"):
        kernel(a, [[1.0], [1.0, 2.0]])


@pytest.mark.slow
def test_results_are_written_to_the_arrays_of_a_list(kernel: LoadedKernel) -> None:
    a, b = inputs()
    c = np.empty((5, 6), np.float32)
    assert kernel(A=a, B=b, out=[c]) == (c,)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_another_process_runs_a_pickled_kernel(kernel: LoadedKernel) -> None:
    a, b = inputs()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(kernel, (a, b)), kernel(a, b))


def test_a_pickled_kernel_is_loaded_once_and_only_with_its_digest(kernel: LoadedKernel) -> None:
    data = pickle.dumps(kernel)
    found = pickle.loads(data)
    assert found is pickle.loads(data)
    assert found.digest == kernel.digest
    with pytest.raises(PackageError, match=f"pickled kernel {kernel.digest[:12]}: sha256 is"):
        pickle.loads(data.replace(b"return", b"retorn"))


def test_a_pickle_of_a_kernel_names_its_file(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mm.zip"
    path.write_bytes(data)
    kernel = load(path)
    pickled = pickle.dumps(kernel)
    assert len(pickled) < 1000
    assert pickle.loads(pickled).digest == kernel.digest
    with pytest.raises(PackageError, match=r"mm\.zip\): sha256 is .* expected 0{64}"):
        pickle.loads(pickled.replace(kernel.digest.encode(), b"0" * 64))
    path.rename(tmp_path / "moved.zip")
    gone = pickle.dumps(kernel).replace(b"mm.zip", b"nn.zip")
    with pytest.raises(PackageError, match=r"because /.*/nn\.zip is gone; expected the file that"):
        pickle.loads(gone)


def test_a_copy_of_a_kernel_is_the_kernel(kernel: LoadedKernel) -> None:
    assert copy.copy(kernel) is copy.deepcopy([kernel])[0] is kernel


def test_a_kernel_shows_its_arrays_its_time_and_its_digest(kernel: LoadedKernel) -> None:
    assert repr(kernel) == (
        "<kernel mm(A: float32[5, 7], B: float32[7, 6]) -> C: float32[5, 6], 1 ms,"
        f" sha256:{kernel.digest[:12]}>"
    )


@pytest.mark.slow
def test_all_outputs_are_arrays_of_the_library_of_the_inputs(tmp_path: Path) -> None:
    loaded = load(packed(parse(TWO)[0], tmp_path)[0])
    total, double = loaded(array_api_strict.arange(9, dtype=array_api_strict.float32))
    assert type(total) is type(double) is type(array_api_strict.zeros(1))
    assert float(total) == 36.0
