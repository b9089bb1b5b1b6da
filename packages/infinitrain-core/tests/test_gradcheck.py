"""gradcheck accepts right gradients and names the place of a wrong one."""

from __future__ import annotations

import pytest

import infinitrain as it
from infinitrain.autograd import Function
from infinitrain.errors import AutogradError, DtypeError
from infinitrain.gradcheck import GradcheckError, gradcheck


class Square(Function):
    """x², with a gradient that is wrong at one place when asked."""

    @staticmethod
    def forward(ctx, x, wrong):
        ctx.save(x)
        ctx.wrong = wrong
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved
        dx = grad * x * 2.0
        if ctx.wrong:
            dx = it.from_numpy(dx.numpy() * [[1.0, 1.0], [1.001, 1.0]])
        return dx, None


@pytest.fixture
def x():
    return it.tensor([[1.0, -2.0], [3.0, 0.5]], "float64", requires_grad=True)


def test_a_right_gradient_passes_and_leaves_the_arguments_alone(x):
    gradcheck(Square.apply, x, False)
    assert x.grad is None
    gradcheck(lambda a, b: (a * b, a + b, a > b), x, it.tensor([2.0, 3.0], "float64", requires_grad=True))


def test_a_wrong_gradient_is_found_where_it_is(x):
    with pytest.raises(
        GradcheckError, match=r"argument 0 of shape \[2, 2\] at \[1, 0\], where it is 3: backward"
    ) as info:
        gradcheck(Square.apply, x, True)
    assert info.value.argument == 0
    assert info.value.position == (1, 0)
    assert info.value.got == pytest.approx(info.value.expected * 1.001)


def test_a_missing_gradient_is_found(x):
    with pytest.raises(GradcheckError, match="backward gives 0"):
        gradcheck(lambda t: t.detach() * x.detach() + t * 0.0, x)


def test_what_cannot_be_checked(x):
    with pytest.raises(AutogradError, match="no argument requires grad"):
        gradcheck(lambda t: t * 2, x.detach())
    with pytest.raises(AutogradError, match="no result depends"):
        gradcheck(lambda t: t.detach(), x)
    with pytest.raises(DtypeError, match="argument 0 is float32; differences need float64"):
        gradcheck(lambda t: t * 2, it.ones(2, requires_grad=True))
