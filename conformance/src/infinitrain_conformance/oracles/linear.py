"""Linear and matmul."""

from __future__ import annotations

import math

import numpy as np

from .want import Array, Want, rows, sum_to


def linear(x: Array, weight: Array, bias: Array | None) -> dict[str, Want]:
    y, size = np.einsum("...i,oi->...o", x, weight), np.einsum("...i,oi->...o", np.abs(x), np.abs(weight))
    if bias is not None:
        y, size = y + bias, size + np.abs(bias)
    return {"y": Want(y, size, x.shape[-1] + 1)}


def linear_dx(weight: Array, grad: Array) -> dict[str, Want]:
    size = np.einsum("...o,oi->...i", np.abs(grad), np.abs(weight))
    return {"dx": Want(np.einsum("...o,oi->...i", grad, weight), size, weight.shape[0])}


def linear_dweight(x: Array, grad: Array) -> dict[str, Want]:
    ins, outs = rows(x), rows(grad)
    size = np.einsum("ni,no->oi", np.abs(ins), np.abs(outs))
    return {"dweight": Want(np.einsum("ni,no->oi", ins, outs), size, ins.shape[0])}


def linear_dbias(grad: Array) -> dict[str, Want]:
    outs = rows(grad)
    return {"dbias": Want(outs.sum(0), np.abs(outs).sum(0), outs.shape[0])}


def linear_backward(x: Array, weight: Array, grad: Array) -> dict[str, Want]:
    return linear_dx(weight, grad) | linear_dweight(x, grad) | linear_dbias(grad)


def matmul(a: Array, b: Array) -> dict[str, Want]:
    return {"y": Want(np.matmul(a, b), np.matmul(np.abs(a), np.abs(b)), a.shape[-1])}


def matmul_da(b: Array, grad: Array, shape: tuple[int, ...]) -> dict[str, Want]:
    full, size = (
        np.matmul(grad, np.swapaxes(b, -1, -2)),
        np.matmul(np.abs(grad), np.swapaxes(np.abs(b), -1, -2)),
    )
    return {
        "da": Want(
            sum_to(full, shape), sum_to(size, shape), max(1, grad.size // max(1, math.prod(shape[:-1])))
        )
    }


def matmul_db(a: Array, grad: Array, shape: tuple[int, ...]) -> dict[str, Want]:
    full, size = (
        np.matmul(np.swapaxes(a, -1, -2), grad),
        np.matmul(np.swapaxes(np.abs(a), -1, -2), np.abs(grad)),
    )
    terms = a.size // max(1, a.shape[-1])
    return {"db": Want(sum_to(full, shape), sum_to(size, shape), terms)}


def gemm(
    a: Array, b: Array, c: Array, alpha: float, beta: float, transpose_a: bool, transpose_b: bool
) -> dict[str, Want]:
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    b = np.swapaxes(b, -1, -2) if transpose_b else b
    held, size = (beta * c, np.abs(beta * c)) if beta else (np.zeros_like(c), np.zeros_like(c))
    value, terms = alpha * (a @ b) + held, np.abs(alpha) * (np.abs(a) @ np.abs(b)) + size
    return {"c": Want(value, terms, a.shape[-1] + 1)}
