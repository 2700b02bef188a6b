"""Hostile request bodies: `BODIES` are invalid, `BOMBS` exceed limits."""

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ansorpy.frontends.json.write import to_json
from ansorpy.frontends.tc.text import parse
from tests.graph.wire.hostile import READ, valid

MM = "def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
CANARY = "Xcanary9q"
Json = dict[str, Any]


def dag() -> Json:
    """Return a valid Dag in the wire form."""
    return to_json(parse(MM)[0])


def body(value: Any) -> bytes:
    """Return the JSON of a value, which may contain NaN and lone surrogates."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def changed(change: Callable[[Json], object]) -> bytes:
    """Return a body with one changed Dag."""
    one = copy.deepcopy(dag())
    change(one)
    return body({"dags": [one]})


def put(value: Any, *path: str | int) -> bytes:
    """Return a body with a Dag that has another value at a place."""

    def change(one: Json) -> None:
        place: Any = one
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return changed(change)


def dropped(*path: str | int) -> bytes:
    """Return a body with a Dag without a key."""

    def change(one: Json) -> None:
        place: Any = one
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return changed(change)


def text(source: str, **fields: Any) -> bytes:
    """Return a body with a text."""
    return body({"text": source, **fields})


def _syntax() -> Iterator[tuple[str, bytes]]:
    raw = [
        b"", b" ", b"null", b"true", b"0", b"[]", b"{", b"}", b'"text"', b"{}", b"\xff\xfe",
        b"\x00",
        b'{"text"}', b"{'text': 'x'}", b'{"text": "x",}', b'{"text": "x"} {}', b'{"text": "x"}x',
        b'\xef\xbb\xbf{"text": "x"}', b"{text: 1}", b'{"text": undefined}', b"[[[]]]",
        b'{"text": "\\', b'{"text": "\\u12"}', b'{"text": "\\ud800"}',
        b'{"text": "\\udfff\\ud800"}',
        b'{"text": "\\u0000"}', b'{"text": "a\x00b"}', b'{"text": "\xc3\x28"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": NaN}', b'{"text": Infinity}', b'{"seed": -Infinity}', b'{"seed": 1e999}',
        b'{"seed": -1e999}', b'{"seed": ' + b"9" * 4000 + b"}",
        b'{"seed": 1' + b"0" * 100_000 + b"}",
        b'{"seed": 0.' + b"1" * 100_000 + b"}", b'{"seed": 1e' + b"9" * 5000 + b"}",
        b'{"text": "x", "text": "y"}', b'{"text": "x", "budget": {"trials": 1, "trials": 2}}',
        b"[" * 5000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"dags": ' + b"[" * 5000 + b"]" * 5000 + b"}", b"<xml/>", b"text=x&trials=5",
        b'{"text": "' + b"x" * 70_000 + b'"}', b'{"' + b"k" * 100_000 + b'": 1}',
        b"{" + b",".join(b'"k%d":0' % i for i in range(20_000)) + b"}",
        b'{"weights": {' + b",".join(b'"w%d":1' % i for i in range(20_000)) + b"}}",
        b'{"dags": [' + b",".join([b"1"] * 200_000) + b"]}", b"// {}", b"%PDF-1.7", b"PK\x03\x04",
        b"\x1f\x8b\x08\x00", b"\x80\x04\x95.", b"!!python/object:os.system", b"---\n- a",
    ]  # fmt: skip
    yield from ((f"syntax {i}", one) for i, one in enumerate(raw))


def _fields() -> Iterator[tuple[str, bytes]]:
    wrong: Mapping[str, list[Any]] = {
        "text": [5, None, [], {}, True, "", "x" * 70_000, "\ud800"],
        "dags": [5, {}, [], "x", [1], [None], [[]], [{}], [{"dags": []}], [True]],
        "bind": [5, [], {"N": 0}, {"N": -1}, {"N": 2**31}, {"N": 2**63}, {"N": "4"}, {"N": 1.5},
                 {"N": None}, {"../N": 4}, {"": 4}, {"\uff4f\uff53": 4}, {"N" * 64: 4}, {"N\n": 4},
                 {f"N{i}": 1 for i in range(65)}],
        "weights": [5, {"mm": 0}, {"mm": -1}, {"mm": float("nan")}, {"mm": 1e10}, {"mm": "1"},
                    {"nothing": 1.0}, {"__class__": 1.0}],
        "cores": [0, -1, 257, 2**63, 2**64, 1.5, "1", None, [], True],
        "seed": [-1, 2**32, 2**63, 1e30, 0.5, "0", None, {}],
        "priority": [101, -101, 2**63, "high", None, 0.1],
        "fresh": ["yes", 1, None, []],
        "target": ["x", "../", "A" * 32, "0" * 33, 5, None],
        "model": [5, [], {}, "", "x", "0" * 63, "0" * 65, "F" * 64, "../" + "0" * 61, CANARY],
        "graph": [5, [], {}, "", CANARY, {CANARY: CANARY},
                  *(make() for make, _ in READ.values() if isinstance(make(), dict))],
        "shapes": [5, [], "x", {"x": 4}, {"x": [0]}, {"x": [-1]}, {"x": [2**31]}, {"x": ["N"]},
                   {"x": [1] * 17}, {"": [4]}, {"x" * 257: [4]}, {"x": [4]}],
        "hosted": ["yes", 1, None, True],
        "budget": [{"trials_per_task": 0}, {"trials_per_task": 8}, {"trials_per_task": 100_001},
                   5, [], "x", None, {"trials": -1}, {"trials": 100_001},
                   {"trials": 2**63}, {"trials": 1.5}, {"trials": "64"}, {"trials": None},
                   {"trials": True}, {"seconds": 0}, {"seconds": -1}, {"seconds": 86_401},
                   {"seconds": float("inf")}, {"seconds": float("nan")}, {"seconds": "1"},
                   {"target_latency_s": 0}, {"target_latency_s": -1e-9},
                   {"stop_if_gain_below": 0}, {"stop_if_gain_below": 1}, {"other": 1},
                   {"trials": 64, "__proto__": {}}],
        "__proto__": [{}], "extra": [1], CANARY: [CANARY], "id": ["0" * 32], "tenant_id": [1],
    }  # fmt: skip
    for name, values in wrong.items():
        for number, value in enumerate(values):
            alone = name in ("text", "dags", "model", "graph")
            yield f"{name} {number}", body({name: value} if alone else {"text": MM, name: value})
    for name in ("shapes", "weights"):
        for number, value in enumerate(wrong[name]):
            if value not in ({"x": [4]}, {"x": [0]}):  # legal, of a model
                yield f"{name} of a model {number}", body({"model": "0" * 64, name: value})
    yield "a model and a text", body({"text": MM, "model": "0" * 64})
    yield "a graph and a model", body({"graph": valid(), "model": "0" * 64})
    yield "a graph and extents", body({"graph": valid(), "bind": {"batch": 1}})
    yield "a graph and shapes", body({"graph": valid(), "shapes": {"x": [4]}})
    yield "a model and Dags", body({"dags": [dag()], "model": "0" * 64})
    yield "both sources", body({"text": MM, "dags": [dag()]})
    yield "no source", body({"budget": {"trials": 1}})
    yield "65 dags", body({"dags": [dag()] * 65})
    yield "two of one name", body({"dags": [dag(), dag()]})


EVIL_NAMES: Final = (
    "", " ", "1a", "a b", "a-b", "a.b", "a;b", "a\nb", "a\x00b", "a'b", 'a"b', "a\\b", "a/b",
    "../a",
    "a" * 64, "a" * 60_000, "\uff4f\uff53", "é", "\u202eabc", "\u200b", "\ud800", "\U0001d482",
    "${a}", "{{a}}", "%s",
    "<script>", "'; DROP TABLE jobs; --", "__import__('os')", "a\u0301", "\ufeffa", "a\r\nX: y",
)  # fmt: skip


def _dags() -> Iterator[tuple[str, bytes]]:
    for number, name in enumerate(EVIL_NAMES):
        yield f"dag name {number}", put(name, "name")
        yield f"node name {number}", put(name, "nodes", 0, "name")
        yield f"axis name {number}", put(name, "nodes", 2, "axes", 0, 0)
    for number, value in enumerate((0, 2, -1, 2**63, "1", None, 1.5, [1], True)):
        yield f"version {number}", put(value, "ansorpy")
    for number, value in enumerate((0, -1, 2**31, 2**63, 2**64, 10**40, "4", None, 1.5, [4], True)):
        yield f"extent {number}", put(value, "nodes", 0, "shape", 0)
        yield f"axis extent {number}", put(value, "nodes", 2, "axes", 0, 1)
    for number, value in enumerate(("float31", "object", "", CANARY, 5, None, "complex64", "O8")):
        yield f"dtype {number}", put(value, "nodes", 0, "dtype")
    combiners: tuple[Any, ...] = ("pickle", CANARY, "", None, 5, ["sum"], "mean")
    for number, value in enumerate(combiners):
        yield f"combiner {number}", put(value, "nodes", 2, "combiner")
    for key in ("ansorpy", "name", "nodes", "outputs"):
        yield f"without {key}", dropped(key)
        yield f"null {key}", put(None, key)
    for key in ("kind", "name", "axes", "dtypes", "body", "combiner"):
        yield f"node without {key}", dropped("nodes", 2, key)
    expressions: list[Any] = [
        {}, [], None, 5, CANARY, {"op": "add"}, {"op": "os.system", "a": {}, "b": {}},
        {"call": "eval", "a": {"const": 1.0, "dtype": "float32"}}, {"var": CANARY}, {"var": 5},
        {"read": "C", "at": []}, {"read": CANARY, "at": []}, {"read": "A", "at": "x"},
        {"const": "import os", "dtype": "float32"}, {"const": 10**400, "dtype": "float32"},
        {"const": 1, "dtype": "int8", "extra": 1}, {"const": 300, "dtype": "int8"},
        {"cast": CANARY, "a": {"var": "i"}}, {"select": 1, "then": 1, "other": 1},
        {"read": "A", "at": [{"var": "i"}, {"var": "j"}, {"var": "k"}]},
        {"read": "A", "at": [{"const": 99, "dtype": "int64"}, {"var": "k"}]},
        {"read": "A", "at": [{"const": -1, "dtype": "int64"}, {"var": "k"}]},
        {"read": "A", "at": [{"op": "add", "a": {"var": "i"}, "b": {"var": "i"}}, {"var": "k"}]},
        {"read": "A", "at": [{"var": "i"}, {"var": "k"}], "output": 2**63},
        {"op": "pow", "a": {"const": 1.0, "dtype": "float32"}, "b": {"var": "i"}},
        {"op": "floordiv", "a": {"var": "i"}, "b": {"const": 0, "dtype": "int64"}},
    ]  # fmt: skip
    for number, expression in enumerate(expressions):
        yield f"expression {number}", put([expression], "nodes", 2, "body")
    yield "outputs twice", put(["C", "C"], "outputs")
    yield "output of an input", put(["A"], "outputs")
    yield "output of nothing", put([CANARY], "outputs")
    yield "unknown key", put(1, CANARY)
    yield "unknown kind", put(CANARY, "nodes", 0, "kind")
    yield "external data", put({"location": "/etc/passwd"}, "nodes", 0, "data")
    constant = {"kind": "constant", "name": "A", "shape": [4, 5], "dtype": "float32"}
    for number, data in enumerate(("", "AAAA", CANARY, "//", "A" * 1000, 5, None)):
        yield f"constant {number}", put({**constant, "data": data}, "nodes", 0)


def _texts() -> Iterator[tuple[str, bytes]]:
    sources = [
        "def", "def f", "def f(", "def f() -> () {}", "def f() -> (C) {}", CANARY, f"def {CANARY}(",
        MM + MM, MM[:-1], MM.replace("C(i", f"{CANARY}(i"), MM.replace("A(i,k)", f"{CANARY}(i,k)"),
        MM.replace("float", CANARY), MM.replace("* B", f"* {CANARY}"), MM.replace("+=!", "=+"),
        MM.replace("4", "0"), MM.replace("4", "-4"), MM.replace("4", "4.5"), MM.replace("4", "N"),
        MM.replace("4", "99999999999"), MM.replace("4", "9" * 39), MM.replace("4", "9" * 50_000),
        "def a(float(4) A) -> (B) { B(i) = A(i + 1) where i in 0:4 }",
        "def a(float(4) A) -> (B) { B(i) = A(B(i)) }", "def a(float(4) A) -> (A) { A(i) = A(i) }",
        "def __import__(float(4) A) -> (B) { B(i) = os.system(A(i)) }",
        "def a(float(4) A) -> (B) { B(i) = exec(A(i)) }", "import os", "$(reboot)", "`id`",
        "def \uff4d\uff4d(float(4) A) -> (B) { B(i) = A(i) }",
        "def a(float(4) Å) -> (B) { B(i) = Å(i) }",
        "def a(float(4) A) -> (B) { B(i) = A(i) / 0 } \u202e", "\x00", "\u0000def", "\U0001f600",
        "def a(float(4) A) -> (B) { B(i) = 'x' }", "/* */", "# " + CANARY, "def a" + "(" * 30_000,
        "def a(float(4) A) -> (B) { B(i) = " + "-" * 30_000 + "A(i) }",
        "def a(float(4) A) -> (B) { B(i) = " + "(" * 20_000 + "A(i)" + ")" * 20_000 + " }",
        "def a(float(4) A) -> (B) { B(i) = A(i) where i in 0:99 }",
        "def a(float(4) A) -> (B) { B(i) = A(i) where i in 3:1 }",
        "def a(float(4) A) -> (B) { B(i) = A(i) with unroll(x) }",
    ]  # fmt: skip
    yield from ((f"text {i}", text(source)) for i, source in enumerate(sources))
    yield "bind of nothing", text(MM, bind={"K": 4})
    yield "bind of a reserved word", text(MM.replace("4", "float"), bind={"float": 4})
    yield "weights of nothing", text(MM, weights={CANARY: 1.0})


BODIES: Final[Mapping[str, bytes]] = dict((*_syntax(), *_fields(), *_dags(), *_texts()))


def read_a(*indices: str) -> Json:
    """Return an element of A."""
    return {"read": "A", "at": [{"var": name} for name in indices]}


def chain(depth: int, op: str = "add") -> Json:
    """Return a deep expression over A."""
    expression = read_a("i", "k")
    for _ in range(depth):
        expression = {"op": op, "a": expression, "b": read_a("i", "k")}
    return expression


def tree(depth: int) -> Json:
    """Return a bushy expression over A: 2^depth leaves."""
    if depth == 0:
        return read_a("i", "k")
    return {"op": "mul", "a": tree(depth - 1), "b": tree(depth - 1)}


def nodes(count: int, extent: int = 4) -> bytes:
    """Return a body with a chain of nodes."""
    one: Json = {"ansorpy": 1, "name": "long", "outputs": [f"n{count - 1}"], "nodes": [
        {"kind": "placeholder", "name": "n0", "shape": [extent], "dtype": "float32"}]}  # fmt: skip
    for i in range(1, count):
        read = {"read": f"n{i - 1}", "at": [{"var": "i"}]}
        one["nodes"].append(
            {"kind": "compute", "name": f"n{i}", "axes": [["i", extent]], "dtypes": ["float32"],
             "body": [{"op": "add", "a": read, "b": read}]}
        )  # fmt: skip
    return body({"dags": [one]})


def thick(count: int) -> bytes:
    """Return a body of nodes with large expressions, the last of which reads a missing node."""
    one = dag()
    axes = [["i", 4], ["k", 5]]
    for n in range(count):
        one["nodes"].append(
            {"kind": "compute", "name": f"n{n}", "axes": axes, "dtypes": ["float32"],
             "body": [tree(8)]}
        )  # fmt: skip
    one["nodes"][-1]["body"] = [{"op": "add", "a": tree(8), "b": {"read": "nope", "at": []}}]
    one["outputs"] = [f"n{n}" for n in range(count)]
    return body({"dags": [one]})


def shaped(*shape: int) -> bytes:
    """Return a body that copies a tensor of a shape."""
    axes = [[f"i{n}", extent] for n, extent in enumerate(shape)]
    one = {"ansorpy": 1, "name": "copy", "outputs": ["B"], "nodes": [
        {"kind": "placeholder", "name": "A", "shape": list(shape), "dtype": "float32"},
        {"kind": "compute", "name": "B", "axes": axes, "dtypes": ["float32"],
         "body": [{"read": "A", "at": [{"var": name} for name, _ in axes]}]}]}  # fmt: skip
    return body({"dags": [one]})


def _bombs() -> Iterator[tuple[str, bytes]]:
    big = 2**31 - 1
    for shape in (
        (2**31,), (2**32, 2**32), (2**63,), (10**30,), (big, big), (2**16, 2**16), (2**31, 1),
        (2**21, 2**21, 2**22), (1,) * 9, (2,) * 40, (1,) * 1000, (2**20, 2**12), (46341, 46341),
        (2**8,) * 4, (2**4,) * 8, (10**9,), (0, 10**9), (-1, 4), (2**30, 4), (2**29 + 1,),
    ):  # fmt: skip
        yield f"shape {'x'.join(map(str, shape[:4]))} ({len(shape)})", shaped(*shape)
    for extent in (2**14, 2**16, 2**20, 2**24, 2**30):
        axes = [["i", extent], ["j", extent]]
        yield (
            f"iterations {extent}",
            changed(
                lambda one, axes=axes, extent=extent: one["nodes"][2].update(  # type: ignore[misc]
                    axes=axes, reduce_axes=[["k", extent]]
                )
            ),
        )
    for extent in (2**14, 2**16, 2**20, 2**31 - 1, 10**20 - 1):
        size = f"{extent},{extent}"
        yield f"text {extent}", text(MM.replace("4,5", size).replace("5,6", size))
    yield (
        "text by bind",
        text(MM.replace("4,5", "N,N").replace("5,6", "N,N"), bind={"N": 2**31 - 1}),
    )
    for depth in (65, 100, 500, 900):
        yield f"deep expression {depth}", put([chain(depth)], "nodes", 2, "body")
    for depth in (12, 13):
        yield f"bushy expression {depth}", put([tree(depth)], "nodes", 2, "body")
    yield "wide index", put([{"read": "A", "at": [{"var": "i"}] * 1000}], "nodes", 2, "body")
    for count in (514, 1000, 2500):
        yield f"{count} nodes", nodes(count)
    yield "512 nodes, the last of which is wrong", nodes(513)[:-20] + b'"a": {}, "b": {}}]}]}]}'
    yield (
        "512 nodes, the last of which reads nothing",
        nodes(512).replace(b'"read": "n510"', b'"read": "nope"'),
    )
    yield "8 nodes of 2,000 parts, the last of which is wrong", thick(8)
    yield (
        "many axes",
        changed(lambda one: one["nodes"][2].update(axes=[[f"i{n}", 2] for n in range(500)])),
    )
    yield (
        "many reduce axes",
        changed(lambda one: one["nodes"][2].update(reduce_axes=[[f"k{n}", 2] for n in range(500)])),
    )
    yield "many outputs", put(["C"] * 3000, "outputs")
    yield "many bodies", put([read_a("i", "k")] * 2000, "nodes", 2, "body")
    yield "a long name", put("n" * 900_000, "nodes", 0, "name")
    yield "a long key", put(1, "k" * 900_000)
    yield "a long number", put(10**4000, "nodes", 0, "shape", 0)
    yield (
        "many long names",
        changed(lambda one: one.update(nodes=[{"kind": "n" * 1000} for _ in range(800)])),
    )
    yield (
        "unrolled",
        changed(
            lambda one: one["nodes"][2].update(
                axes=[["i", 4096], ["j", 4096]], attrs={"unroll": ["i", "j"]}
            )
        ),
    )
    yield "flop", changed(lambda one: one["nodes"][2].update(attrs={"flop": 2**63}))
    zeros = base64.b64encode(bytes(700_000)).decode()
    constant = {"kind": "constant", "name": "A", "shape": [2**22], "dtype": "float32"}
    yield "constant of too few bytes", put({**constant, "data": zeros}, "nodes", 0)
    yield (
        "constant of 16 GiB",
        put({**constant, "shape": [2**31], "dtype": "float64", "data": zeros}, "nodes", 0),
    )
    yield "nested lists", body({"dags": [json.loads("[" * 900 + "]" * 900)]})
    yield "nested objects", body({"dags": [json.loads('{"nodes":' * 900 + "1" + "}" * 900)]})
    yield "brackets", b"[" * 1_000_000
    yield "braces", b'{"a":' * 200_000
    yield "quotes", b'"' * 1_000_000
    yield "backslashes", b'{"text": "' + b"\\\\" * 500_000
    yield "surrogates", b'{"text": "' + b"\\ud800" * 170_000 + b'"}'
    yield "200,000 wrong ints", b'{"dags": [' + b",".join([b"1"] * 200_000) + b"]}"
    yield "100,000 keys", b"{" + b",".join(b'"k%d":0' % i for i in range(80_000)) + b"}"
    yield "text of brackets", text("def a(float(4) A) -> (B) { B(i) = " + "(" * 60_000)
    yield (
        "text of terms",
        text("def a(float(4) A) -> (B) { B(i) = " + " + ".join(["A(i)"] * 8000) + " }"),
    )
    yield "text of minus signs", text("def a(float(4) A) -> (B) { B(i) = " + "- " * 30_000 + "1 }")
    yield (
        "text of conditions",
        text("def a(float(4) A) -> (B) { B(i) = " + "i < 2 ? A(i) : " * 4000 + "A(i) }"),
    )
    yield (
        "text of definitions",
        text("".join(f"def f{n}(float(4) A) -> (B) {{ B(i) = A(i) }}\n" for n in range(1400))),
    )
    yield (
        "text of definitions, the last of which is wrong",
        text(
            "".join(f"def f{n}(float(4) A) -> (B) {{ B(i) = A(i) }}\n" for n in range(127))
            + "def g(float(4) A) -> (B) { B(i) = C(i) }"
        ),
    )
    yield (
        "text of statements, the last of which is wrong",
        text(
            "def f(float(4) A) -> (B) {"
            + "".join(f" B{n}(i) = A(i)" for n in range(500))
            + " B(i) = }"
        ),
    )
    yield "text of comments", text("# " + "x" * 60_000 + "\n")
    yield "text of one long name", text(f"def {'n' * 60_000}(float(4) A) -> (B) {{ B(i) = A(i) }}")
    yield "text of one long number", text(MM.replace("4", "9" * 60_000))
    yield (
        "text of parameters",
        text(
            "def a(" + ",".join(f"float(4) A{n}" for n in range(3000)) + ") -> (B) { B(i) = A0(i) }"
        ),
    )


BOMBS: Final[Mapping[str, bytes]] = dict(_bombs())
