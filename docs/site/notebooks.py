"""Execute the notebooks: `make notebooks` keeps their outputs, `make docs` tries the first two.

Each runs in a folder of its own, with a database of its own, so that no path of this machine and no
earlier record is in its outputs.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import nbformat

FOLDER: Final = Path(__file__).resolve().parents[1] / "notebooks"
FIRST: Final = ("first_kernel", "model_vs_onnxruntime")
NEEDS_TORCH: Final = ("inside_torch_compile", "read_a_search")
LIMIT_S: Final = 1200  # deadline of a notebook
# A cell as torch and warnings name it.
CELL: Final = re.compile(r"/tmp/ipykernel_\d+/\d+\.py")
NOT_KEPT: Final = re.compile(r"/(?:root|home|tmp|work|Users)/\S*")


def execute(name: str, python: str, trials: str | None = None) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run by an interpreter that has ipykernel.

    Raises:
        CalledProcessError: a cell raised; its traceback is on stderr.
    """
    with TemporaryDirectory(prefix="notebook-") as place:
        env = {**os.environ, "ANSORPY_DATA_DIR": f"{place}/data", "JUPYTER_PATH": place}
        env["PATH"] = f"{Path(python).parent}:{env['PATH']}"
        env.pop("CI", None)  # jit tunes in the background, as for a reader
        if trials:
            env["NOTEBOOK_TRIALS"] = trials
        subprocess.run(
            [python, "-m", "ipykernel", "install", "--prefix", place, "--name", "site"],
            check=True, capture_output=True,
        )  # fmt: skip
        env["JUPYTER_PATH"] = f"{place}/share/jupyter"
        work = Path(place) / "work"
        work.mkdir()
        (work / "notebook.ipynb").write_text((FOLDER / f"{name}.ipynb").read_text())
        subprocess.run(
            [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace",
             "--ExecutePreprocessor.kernel_name=site", f"--ExecutePreprocessor.timeout={LIMIT_S}",
             "--log-level=ERROR", "notebook.ipynb"],
            cwd=work, env=env, check=True,
        )  # fmt: skip
        text = (work / "notebook.ipynb").read_text()
        return nbformat.reads(CELL.sub("a_cell.py", text), as_version=4)


def keep(name: str, notebook: nbformat.NotebookNode) -> None:
    """Write a notebook with its outputs, without times, ids and names of the interpreter.

    Raises:
        ValueError: an output has a path of this machine.
    """
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    )
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = shown_lines(cell.outputs)
        for output in cell.get("outputs", ()):
            texts = {
                form: text for form, text in output.get("data", {}).items() if "image" not in form
            }
            shown = NOT_KEPT.search(f"{output.get('text', '')} {texts}")
            if shown:
                raise ValueError(f"{name}: an output has the path {shown[0]}")
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")


def shown_lines(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join streams, and keep the text of a line behind its last carriage return."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and kept and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    for output in kept:
        if output.output_type == "stream":
            lines = [line.rpartition("\r")[2].rstrip() for line in output.text.split("\n")]
            output.text = "\n".join(line for line in lines if line) + "\n"
    return [output for output in kept if output.get("text", "text").strip()]


def try_first() -> list[str]:
    """Execute the first two notebooks with few trials; return the errors."""
    errors = []
    for name in FIRST:
        try:
            notebook = execute(name, sys.executable, trials="8")
        except subprocess.CalledProcessError as error:
            errors.append(f"{name}.ipynb: {error}")
        else:
            print(f"notebook {name}: {len(notebook.cells)} cells run")
    return errors


def main() -> None:
    """Execute all notebooks, or those that are named, and keep their outputs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--torch", default=sys.executable, help="an interpreter that has torch")
    asked = parser.parse_args()
    for name in asked.names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        python = asked.torch if name in NEEDS_TORCH else sys.executable
        keep(name, execute(name, str(Path(python).absolute()), os.environ.get("NOTEBOOK_TRIALS")))
        print(f"{name}: executed", flush=True)


if __name__ == "__main__":
    main()
