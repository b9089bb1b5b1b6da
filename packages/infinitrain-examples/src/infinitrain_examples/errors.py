"""The error for what a user can put right: a flag, a file, a folder."""


class UsageError(ValueError):
    """What was asked for cannot be done. The message names the flag or file and says what to change.

    A program's `main` prints it as one message, without a traceback, and exits with status 2.
    """
