"""A slot of another kind than this machine: a processor without AVX.

python -m tests.cluster.plain_slot CORES
"""

from dataclasses import replace

from ansorpy.cluster import slot_daemon
from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.target import CpuTarget

LATER = ("avx", "fma", "f16c", "vaes", "vpclmulqdq", "xsave", "amx", "gfni")  # begin VEX features


def plain_target() -> CpuTarget:
    target = local_target(1)
    kept = tuple(name for name in target.features if not name.startswith(LATER))
    return replace(target, features=kept, vector_bits=128, registers=16, cpu="x86-64")


def main() -> None:
    facts, target = slot_daemon.facts(), plain_target()
    told = replace(facts, kind=target_digest(target), target=target)
    slot_daemon.facts = lambda: told
    slot_daemon.main()


if __name__ == "__main__":
    main()
