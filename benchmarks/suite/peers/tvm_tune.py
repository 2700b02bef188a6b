"""One tuning by MetaSchedule, in TVM's environment.

    python -m benchmarks.suite.peers.tvm_tune CASE FOLDER --trials 64 --threads 2 --seed 0

Leaves `best.so` and `info.json` in the folder: trials with their costs, in the order in which
they were measured, and the wall time of every batch.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.suite.cases import CASES
from benchmarks.suite.peers.common import module
from benchmarks.suite.peers.tvm_forms import primitive
from benchmarks.suite.peers.tvm_peer import INFO, LIBRARY, target

BUILD_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 30.0


def watcher(batches: list[dict[str, Any]], begin_s: float) -> Any:
    """Return a callback of MetaSchedule that records every measured batch."""
    schedule, utils = module("tvm.s_tir.meta_schedule"), module("tvm.ir.utils")

    def apply(_self: Any, _scheduler: Any, _task: Any, _rows: Any, built: Any, run: Any) -> None:
        costs = [None if r.error_msg else min(map(float, r.run_secs)) for r in run]
        errors = [str(one.error_msg)[:200] for one in (*built, *run) if one.error_msg]
        spent_s = time.perf_counter() - begin_s
        batches.append({"seconds": spent_s, "costs_s": costs, "errors": errors[:2]})

    base = schedule.measure_callback.PyMeasureCallback
    return utils.derived_object(type("Watcher", (base,), {"apply": apply}))()


def tune(function: Any, folder: Path, args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Tune; return the database and the facts for info.json."""
    schedule = module("tvm.s_tir.meta_schedule")
    timing = schedule.runner.EvaluatorConfig(
        number=3, repeat=1, min_repeat_ms=100, enable_cpu_cache_flush=False
    )
    batches: list[dict[str, Any]] = []
    begin_s = time.perf_counter()
    callbacks = [*schedule.MeasureCallback.create("default"), watcher(batches, begin_s)]
    database = schedule.tir_integration.tune_tir(
        function, target(args.threads), str(folder), max_trials_global=args.trials,
        num_trials_per_iter=min(64, args.trials), num_tuning_cores=args.jobs, seed=args.seed,
        runner=schedule.runner.LocalRunner(
            timeout_sec=RUN_TIMEOUT_S, evaluator_config=timing
        ),
        builder=schedule.builder.LocalBuilder(max_workers=args.jobs, timeout_sec=BUILD_TIMEOUT_S),
        measure_callbacks=callbacks,
    )  # fmt: skip
    return database, {"seconds": time.perf_counter() - begin_s, "batches": batches}


def main() -> None:
    """Tune one case; write the library and info.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="processes that build")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for old in args.folder.glob("database_*.json"):
        old.unlink()
    function = primitive(CASES[args.case].form)
    database, info = tune(function, args.folder, args)
    found = module("tvm.s_tir.meta_schedule").tir_integration.compile_tir(
        database, function, target(args.threads)
    )
    if found is not None:
        built = module("tvm.driver").build(found.mod, target=target(args.threads))
        built.export_library(str(args.folder / LIBRARY))
    settings = {"trials": args.trials, "threads": args.threads, "seed": args.seed}
    facts = {**info, **settings, "mcpu": str(target(1).attrs["mcpu"]), "built": found is not None}
    (args.folder / INFO).write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
