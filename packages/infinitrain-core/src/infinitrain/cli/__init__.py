"""The command ``infinitrain``: the op table, what a provider lacks, a new provider's repository.

Exit status: 0 done; 1 the answer is no (``ops --missing``); 2 the command line is wrong, one line says how; 3 a
backend is there but does not load, the cause is told; 130 interrupted.
"""

from .main import main

__all__ = ["main"]
