"""The error that says: your data, or what you asked of it, does not fit."""


class DataError(ValueError):
    """A data file, a text or a batch setting is unusable. The message names it and says what to change."""
