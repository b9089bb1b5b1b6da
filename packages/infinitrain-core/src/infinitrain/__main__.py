"""`python -m infinitrain` is the command too."""

import sys

from .cli import main

sys.exit(main())
