"""Every kernel of the C++ InfiniTrain has its counterpart in the op table; docs/ops-from-cpp.md says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infinitrain.backend.optable import OPS

PAGE = Path(__file__).parents[4] / "docs" / "ops-from-cpp.md"

# The kernels by the files that they are in. Names with {} stand for Forward and Backward.
KERNELS = {
    "accumulate_grad": "AccumulateGrad AdamAccumulateGrad",
    "cast": "Cast",
    "fill": "Fill",
    "no_op": "NoOp{}",
    "unary": "Neg{} Reciprocal{} Sin{} Cos{} Tanh{} Rsqrt{} Exp{} Log{} Pow{}",
    "compare": (
        "EqualsForward LtForward LeForward GtForward GeForward EqualsScalarForward LtScalarForward LeScalarForward "
        "GtScalarForward GeScalarForward AndForward OrForward"
    ),
    "binary": "Add{} Sub{} Mul{} Div{} AddScalar{} MulScalar{}",
    "sigmoid": "Sigmoid{}",
    "linear": "LinearForward LinearBackwardInput LinearBackwardWeight LinearBackwardBias",
    "matmul": "MatmulForward MatmulBackwardInput MatmulBackwardOther",
    "gemm": "Gemm",
    "outer": "Outer{}",
    "embedding": "Embedding{}",
    "layernorm": "LayerNorm{}",
    "softmax": "Softmax{}",
    "cross_entropy": "CrossEntropy{}",
    "reduction": "Mean{} Sum{} Max{} Min{}",
    "gather": "Gather{}",
    "scatter": "Scatter{}",
    "slice": "Slice{}",
    "split": "Split{}",
    "concat": "Concat{}",
    "stack": "Stack{}",
    "transform": "Tril{} Triu{} Transpose{} Mask{} RepeatInterleave{}",
    "comm": "Broadcast Scatter Gather ReduceAddCoalesced",
    "vocab_parallel_cross_entropy": "VocabParallelCrossEntropyBackward",
    "topk": "TopK{}",
}
# Names that differ: the ops here that do the same, and why they are others.
ELSEWHERE = {
    "AdamAccumulateGrad": ("AdamW", "with weight_decay 0; over lists of tensors"),
    "NegBackward": ("NegForward", "-grad"),
    "AddScalarBackward": ("", "the gradient is grad itself"),
    "MulScalarBackward": ("MulScalarForward", "grad times the number"),
    "OuterForward": ("MatmulForward", "a column times a row"),
    "OuterBackward": ("MatmulBackwardInput MatmulBackwardOther", "as of any product"),
    "SplitBackward": ("ConcatForward", ""),
    "ConcatBackward": ("SplitForward", ""),
    "StackForward": ("ConcatForward", "of tensors with one axis more, which are views"),
    "StackBackward": ("SplitForward", "and views"),
    "TrilBackward": ("TrilForward", "the same triangle of grad"),
    "TriuBackward": ("TriuForward", "the same triangle of grad"),
    "TopKBackward": ("ScatterForward", "the gradients at their indices, zeros elsewhere"),
    "TransposeBackward": ("TransposeForward", "the same two axes"),
}
COLLECTIVES = ("Broadcast", "Scatter", "Gather", "ReduceAddCoalesced")


def names() -> list[str]:
    """Return the names of all kernels, collectives aside, each once."""
    found = []
    for file, text in KERNELS.items():
        if file != "comm":
            for word in text.split():
                found += [word.format(way) for way in ("Forward", "Backward")] if "{}" in word else [word]
    return found


def counterparts(name: str) -> list[str]:
    return ELSEWHERE[name][0].split() if name in ELSEWHERE else [name]


def test_the_list_is_whole() -> None:
    """97 on the CPU, two more on CUDA beside the four old collectives, and two of a branch for mixtures of experts."""
    assert len(names()) == len(set(names())) == 97 + 2 + 2


@pytest.mark.parametrize("name", names())
def test_counterpart(name: str) -> None:
    found = counterparts(name)
    assert set(found) <= set(OPS), f"{name}: no op {', '.join(set(found) - set(OPS))}"
    assert name not in ELSEWHERE or name not in OPS, (
        f"{name} is an op of the table: ELSEWHERE need not have it"
    )


def table() -> str:
    """Return the table of the page; a name that is the same here is not repeated."""
    lines = []
    for name in names():
        here = ", ".join(f"`{n}`" for n in counterparts(name)) or "none"
        lines.append(f"| `{name}` | {here} | {ELSEWHERE.get(name, ('', ''))[1]} |")
    lines += [
        f"| `{name}` (collective) | none | a backend's `CclImpl` has collectives |" for name in COLLECTIVES
    ]
    return "\n".join(lines) + "\n"


def test_the_page_says_the_same() -> None:
    """When this fails: print(table()), and put that below the page's head."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"\|---\|---\|---\|\n(.*)", text, re.DOTALL)
    assert found is not None
    assert found[1] == table()
