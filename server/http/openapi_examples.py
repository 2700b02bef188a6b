"""Examples of the OpenAPI document; a test validates each against its model."""

from collections.abc import Mapping
from typing import Any, Final

from ansorpy.server.schemas.job import MATMUL

JOB: Final = "0123456789abcdef0123456789abcdef"
DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
DAG: Final = {
    "ansorpy": 1,
    "name": "relu",
    "nodes": [
        {"kind": "placeholder", "name": "A", "shape": [64], "dtype": "float32"},
        {
            "kind": "compute",
            "name": "B",
            "axes": [["i", 64]],
            "dtypes": ["float32"],
            "body": [
                {
                    "op": "max",
                    "a": {"read": "A", "at": [{"var": "i"}]},
                    "b": {"const": 0.0, "dtype": "float32"},
                }
            ],
        },
    ],
    "outputs": ["B"],
}
BODIES: Final[Mapping[str, Any]] = {
    "text": {
        "summary": "A matrix product, in Tensor Comprehensions notation",
        "value": {"text": MATMUL, "budget": {"trials": 64}},
    },
    "symbols": {
        "summary": "Symbolic sizes bound by the request, a limit of two minutes",
        "value": {
            "text": "def scale(float(N) A, float s) -> (B) { B(i) = A(i) * s }",
            "bind": {"N": 4096},
            "budget": {"trials": 256, "seconds": 120},
        },
    },
    "model": {
        "summary": "An uploaded model, with a batch of one",
        "value": {"model": DIGEST, "bind": {"batch": 1}, "budget": {"trials": 1024}},
    },
    "dag": {
        "summary": "A Dag in the JSON wire form",
        "value": {"dags": [DAG], "cores": 2, "priority": 1},
    },
}
SIMPLIFY_BODIES: Final[Mapping[str, Any]] = {
    "model": {"summary": "A stored model", "value": {"model": DIGEST}},
    "symbols": {
        "summary": "A stored model, with values of its symbolic extents",
        "value": {"model": DIGEST, "bind": {"batch": 1}, "shapes": {"x": [1, 3, 224, 224]}},
    },
}
_FACTS: Final[Mapping[str, Any]] = {
    "node_count": 49,
    "operators": {"Conv": 20, "Relu": 17, "Add": 8},
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, 224, 224]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 1000]}],
    "input_count": 1,
    "output_count": 1,
    "refusal": None,
}
_MODEL: Final[Mapping[str, Any]] = {
    "sha256": DIGEST, "size_bytes": 46745837, "created_s": 1795000000.0,
}  # fmt: skip
_JOB: Final[Mapping[str, Any]] = {
    "id": JOB,
    "state": "succeeded",
    "reason": "",
    "waiting_for": None,
    "priority": 0,
    "budget": {
        "trials": 64, "seconds": None, "target_latency_s": None, "stop_if_gain_below": None,
        "patience": None, "max_trials_per_task": None, "trials_per_task": None,
    },
    "cores": 1,
    "target": "5f2b9c0d1e3a4b6c",
    "created_s": 1795000000.0,
    "updated_s": 1795000031.5,
    "started_s": 1795000000.3,
    "ended_s": 1795000031.5,
    "trials": 64,
    "seconds": 31.2,
    "best_s": 5.1e-06,
    "timing": "race",
    "attempts": 1,
    "events": 12,
    "memory_bytes": 49152,
    "cost_model": "trees",
    "search": "evolution",
    "space": "rules",
    "measurer": "auto",
    "model": None,
    "tasks": [
        {
            "name": "mm",
            "weight": 1.0,
            "trials": 64,
            "sketches": 3,
            "best_s": 5.1e-06,
            "timing": "race",
            "baseline_s": 9.3e-06,
            "naive_s": 4.4e-05,
            "numpy_s": 9.3e-06,
            "numpy_note": "",
            "verdict": {
                "sentence": "1.22x faster than ONNX Runtime 1.32.0 (5.1 us against 6.2 us, 1"
                " thread), verified against float64 loops",
                "level": "green",
                "ratio": 1.2156862745098038,
                "ours_s": 5.1e-06,
                "peer": "ONNX Runtime 1.32.0",
                "peer_s": 6.2e-06,
                "peers": [
                    {"name": "ONNX Runtime 1.32.0", "seconds": 6.2e-06, "note": "", "alike": False}
                ],
                "threads": 1,
                "oracle": "float64 loops",
                "slowdown": 1.0,
                "remedies": [],
            },
            "compile_s": 0.84,
            "same_as": "",
            "winner": "tuned",
            "verified": True,
            "flop": 524288,
            "flop_per_s": 102801568627.0,
            "effective": False,
            "failures": {"run-timeout": 1},
            "kernel": DIGEST,
            "final": True,
        }
    ],
}  # fmt: skip
REPLIES: Final[Mapping[str, Any]] = {
    "JobReply": _JOB,
    "JobSubmitted": {**_JOB, "how": "answered"},
    "JobPage": {
        "jobs": [
            {
                "id": JOB,
                "state": "running",
                "priority": 0,
                "tasks": ["mm"],
                "task_count": 1,
                "model": None,
                "created_s": 1795000000.0,
                "updated_s": 1795000012.5,
                "trials": 32,
                "trials_asked": 64,
                "best_s": 5.4e-06,
                "timing": "trial",
            }
        ],
        "next": None,
    },
    "ExplainReply": {
        "job": JOB,
        "task": "mm",
        "tasks": ["mm"],
        "target_known": True,
        "sketches": 3,
        "visits": [
            {
                "number": 0,
                "stage": "C",
                "sketch": None,
                "verdicts": [
                    {
                        "rule": "Tiling",
                        "verdict": "apply_alone",
                        "why": "reuse: A is read without j",
                        "successors": [1],
                    }
                ],
            }
        ],
        "visit_count": 4,
        "next": 1,
        "trials": 64,
        "failures": [],
    },
    "ModelReply": {**_FACTS, **_MODEL},
    "ModelPage": {"models": [{**_MODEL, "node_count": 49, "refused": False}], "next": None},
    "SimplifyReply": {
        "before": {"Conv": 20, "BatchNormalization": 20, "Relu": 17, "Add": 8},
        "after": {"Conv": 20, "Relu": 17, "Add": 8},
        "fired": [{"name": "batch_norm", "sites": 20, "nodes_removed": 20}],
        "compared_by": "onnx.reference",
        "error": 3.1e-07,
        "error_of_original": None,
        "error_of_simplified": None,
        "sha256": DIGEST,
        "size_bytes": 46745021,
        "link": f"/v1/models/{DIGEST}/file",
    },
    "Passes": {
        "passes": [
            {
                "name": "dead",
                "exact": True,
                "summary": "Remove nodes and constants that no output of the graph needs.",
                "condition": "no output of the node is read by an output of the graph",
                "rewrite": "the node, or the constant, is gone",
                "not_handled": "inputs of the graph, which are its interface",
                "rounding": "",
                "source": "Aho, Lam, Sethi and Ullman, Compilers, 2nd edition, section 9.1.6",
            }
        ]
    },
    "Health": {"status": "ok", "disk": "ok"},
    "Ready": {"status": "ok", "database": "sqlite", "workers": 1, "disk": "ok"},
    "Targets": {
        "targets": [{"target": "5f2b9c0d1e3a4b6c", "facts": {"kind": "cpu", "vector_bits": 512}}]
    },
    "Capabilities": {
        "targets": [
            {
                "target": "5f2b9c0d1e3a4b6c",
                "name": "cpu:znver4",
                "service": True,
                "workers": 1,
                "instructions": [
                    {
                        "name": "vpdpbusd",
                        "computes": "int32 += uint8 * int8, 4 steps",
                        "available": True,
                        "reason": "",
                        "in_source": True,
                    }
                ],
            }
        ]
    },
    "RuleSets": {
        "sets": [
            {
                "kind": "cpu",
                "version": "cpu@1f3a5b7c9d0e",
                "rules": [
                    {
                        "name": "Tiling",
                        "parameters": {"structure": "'SSRSRS'"},
                        "summary": "Tile every axis and interleave the levels.",
                        "text": "Tile every axis and interleave the levels.",
                    }
                ],
            }
        ]
    },
    "Plugins": {
        "plugins": [
            {
                "option": "search",
                "kind": "search strategy",
                "name": "evolution",
                "package": "ansorpy",
                "default": True,
            }
        ]
    },
    "RecordsTaken": {"records": 12, "new": 10},
    "Machines": {
        "clusters": [{"address": "head:6379", "reason": "", "seen_s": 1795000012.0}],
        "slots": [
            {
                "cluster": "head:6379",
                "name": "north/0",
                "host": "north",
                "address": "10.0.0.2",
                "kind": "5f2b9c0d1e3a4b6c",
                "version": "0.2.0",
                "cores": [0, 1, 2, 3],
                "state": "busy",
                "until_s": None,
                "busy": 0.93,
                "waiting": 1,
                "doing": {"job": JOB, "method": "measure", "trials": 16, "seconds": 1.2},
                "drift": 1.02,
                "trials": 4096,
                "up_s": 3600.0,
                "seen_s": 1795000012.0,
            }
        ],
        "rates": [{"begin_s": 1794999900.0, "trials_per_minute": 610.4, "busy_slots": 0.9}],
    },
    "Workers": {
        "workers": [
            {
                "id": "box.4242.1",
                "host": "box",
                "pid": 4242,
                "state": "busy",
                "job": JOB,
                "target": "5f2b9c0d1e3a4b6c",
                "facts": {},
                "started_s": 1795000000.0,
                "heartbeat_s": 1795000012.0,
                "jobs_done": 3,
            }
        ]
    },
}
