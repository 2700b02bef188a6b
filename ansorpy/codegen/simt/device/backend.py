"""Images of kernels for a GPU."""

from ansorpy.codegen.simt.assemble import assemble, has_assembler
from ansorpy.codegen.simt.device.kernel import DeviceCode
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.ptx import ptx


def build_texts(code: SimtCode, arch: str) -> DeviceCode:
    """Return the images of kernels: cubins if ptxas is installed, else PTX for the driver.

    Raises:
        BuildError: LLVM or ptxas refuses a text.
    """
    images = tuple(image(text, arch) for text in code.texts)
    return DeviceCode(images, code.launches, code.buffers)


def image(text: str, arch: str) -> bytes:
    """Return the cubin of a text if ptxas is installed, else its PTX.

    Raises:
        BuildError: LLVM or ptxas refuses the text.
    """
    made = ptx(text, arch)
    return assemble(made, arch).code if has_assembler() else made.encode()
