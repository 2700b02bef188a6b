"""A matrix product with a template: two knobs, after the template of AutoTVM's tutorial.

    python examples/matmul_template.py

tries the knobs with one tuner and prints the loops and the time of the fastest.
"""

import ansorpy
from ansorpy import te
from ansorpy.schedule import Config, StagedSchedule

N, L, M = 512, 512, 512

A = te.placeholder((N, L), name="A")
B = te.placeholder((L, M), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def matmul(s: StagedSchedule, cfg: Config) -> None:
    """Tile the rows and the columns of C; the lengths of the tiles are knobs."""
    y, x = s[C].axis
    k = s[C].reduce_axis[0]

    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)


def vectorized(s: StagedSchedule, cfg: Config) -> None:
    """Add vectors, a packed operand and a budget of written-out steps: further knobs."""
    matmul(s, cfg)
    cfg.define_knob("packs", [False, True])
    cfg.define_knob("unroll", [0, 16, 64])
    s[C].vectorize("j.1")
    s[C].unroll_budget(cfg["unroll"].number)
    if cfg["packs"].val:
        s[C].pack(B)


if __name__ == "__main__":
    dag = te.dag(C, name="matmul")
    for template in (matmul, vectorized):
        print(template.__name__)
        print(ansorpy.tune(dag, mode="template", template=template, trials=24))
