"""The function behind each op's name, generated: a call costs a dictionary lookup and the kernel.

    def LinearForward(x, weight, bias, *, out=None, accumulate=False):
        try:
            plan = _plans[x.spec, weight.spec, None if bias is None else bias.spec,]
        except (KeyError, AttributeError, TypeError):
            plan = None
        if plan is None:
            plan = _build((x, weight, bias,))
        ... run the plan

Ops whose parameters are of the same kinds share one compiled body, renamed: compiling each would double the time that
``import infinitrain`` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from . import storage
from .optable import Op

# The direct case is written out: calls and argument tuples saved here are most of what an op costs beside its kernel.
_RUN_RESULTS = """\
    kernel, spec, make_array, run, into = plan
    if out is None:
        if kernel is None:
            return run({args})
        out = _new(_storage.tensor_class)
        out.spec = spec
        try:
            out.array = make_array()
        except MemoryError:
            raise _out_of_memory(spec) from None
        kernel({args}, out=out)
        return out
    try:
        direct = out.spec is spec and kernel is not None and not accumulate
    except AttributeError:  # several destinations, or none
        direct = False
    if not direct:
        return into(out, accumulate, {args})
    kernel({args}, out=out)
    version = out._version
    if version is None:
        out._version = [1, _name]
    else:
        version[0] += 1
        version[1] = _name
    return out
"""
_RUN_WRITES = "    return plan[3]({args})\n"

# How a parameter of each kind enters the key of the plan. A scalar counts by its type only [contract 4.1]; an attribute
# that is a number by its type as well, as 1, 1.0 and True are equal and kernels take one of them.
_KEYS = {
    "tensor": "{0}.spec",
    "optional": "None if {0} is None else {0}.spec",
    "list": "tuple([t.spec for t in {0}])",
    "scalar": "{0}.__class__",
    "attribute": "{0}",
    "number": "{0}.__class__, {0}",
}


@cache
def _template(kinds: tuple[str, ...], results: bool) -> CodeType:
    names = [f"_{i}" for i in range(len(kinds))]
    args = ", ".join(names)
    keys = ", ".join(_KEYS[kind].format(name) for kind, name in zip(kinds, names, strict=True))
    lists = "".join(
        f"    if {n}.__class__ is not tuple: {n} = _listed({n}, {i})\n"
        for i, (k, n) in enumerate(zip(kinds, names, strict=True))
        if k == "list"
    )
    source = (
        f"def op({args}{', *, out=None, accumulate=False' if results else ''}):\n{lists}"
        f"    try:\n        plan = _plans[{keys},]\n"
        # A missing attribute means that an argument is no tensor; _build names it.
        "    except (KeyError, AttributeError, TypeError):\n        plan = None\n"
        f"    if plan is None:\n        plan = _build(({args},))\n"
        + (_RUN_RESULTS if results else _RUN_WRITES).format(args=args)
    )
    scope: dict[str, Any] = {}
    exec(compile(source, f"<op({', '.join(kinds)})>", "exec"), scope)  # the text above and nothing else
    code: CodeType = scope["op"].__code__
    return code


def generate(row: Op, scope: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of ``row``. ``scope`` has _plans, _build, _listed and _out_of_memory; the rest is added."""
    results = bool(row.results)
    code = _template(tuple("number" if p.is_number else p.kind for p in row.params), results)
    names = (*row.param_names, *code.co_varnames[len(row.params) :])
    code = code.replace(co_name=row.name, co_qualname=row.name, co_varnames=names)
    scope.update(_new=object.__new__, _storage=storage, _name=row.name)
    defaults = tuple(p.default for p in row.params if not p.required)
    call: Any = FunctionType(code, scope, row.name, defaults)
    if results:
        call.__kwdefaults__ = {"out": None, "accumulate": False}
    call.__doc__ = row.infer.__doc__
    call.__module__ = row.infer.__module__
    call.op = row
    result: Callable[..., Any] = call
    return result
