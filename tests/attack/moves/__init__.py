"""The moves of a hostile child. Each is tried in full; refused calls are skipped."""

from collections.abc import Mapping
from typing import Final

from tests.attack.moves import channel, files, processes, usage
from tests.attack.moves.common import FORGED_S, IPC_KEY, MOVES, Aims, answer, number, write

late_thread = channel.late_thread
__all__ = (
    "FAST",
    "FORGED_S",
    "IPC_KEY",
    "MOVES",
    "Aims",
    "answer",
    "channel",
    "files",
    "late_thread",
    "number",
    "processes",
    "usage",
    "write",
)

FAST: Final[Mapping[str, tuple[str, ...]]] = {
    "slot": (
        "crafted_pickle_as_raw_bytes", "extra_frame", "thread_that_steals_requests", "nan_times",
        "giant_length", "garbage_in_the_black_box", "planted_links", "rewritten_cases",
        "modes_and_times_outside", "signals_by_file", "limits_of_others", "own_environment",
    ),
    "builder": (
        "extra_frame_of_another_number", "wrong_types", "deep_json", "forks_twice",
        "fork_that_keeps_the_link", "many_files", "folders_that_resist", "environment_of_others",
    ),
}  # fmt: skip
