"""What the distribution says of itself agrees with what it contains."""

from importlib import metadata

from infinitrain_cuda.__about__ import __version__


def test_metadata_and_version_file_agree():
    assert metadata.version("infinitrain-cuda") == __version__


def test_no_backend_is_promised():
    """Until the provider exists, nothing may be found under the name: an error then says what is missing."""
    found = metadata.distribution("infinitrain-cuda").entry_points
    assert not found.select(group="infinitrain.backends")
