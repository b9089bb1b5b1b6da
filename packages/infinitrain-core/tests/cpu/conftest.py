import pytest

import infinitrain as it


@pytest.fixture(params=[1, 2, 3])
def nt(request):
    """A number of threads, set for the time of the test."""
    before = it.get_num_threads()
    it.set_num_threads(request.param)
    yield request.param
    it.set_num_threads(before)
