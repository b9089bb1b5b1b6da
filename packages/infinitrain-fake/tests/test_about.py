"""What the distribution says of itself agrees with what it contains."""

from importlib import metadata

from infinitrain_fake.__about__ import __version__


def test_metadata_and_version_file_agree():
    assert metadata.version("infinitrain-fake") == __version__
