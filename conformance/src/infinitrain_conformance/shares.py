"""How worker processes share the tests: each takes a group at a time, whoever is free first.

A group is an op, or a file of tests that are about none. The first process that creates a group's file has it, and so
has the process that takes a dead one's place, which has its number.
"""

from __future__ import annotations

import os
from pathlib import Path


class Shares:
    """The groups of one worker. Without a folder it has all of them."""

    def __init__(self, folder: str | None, worker: int) -> None:
        self.folder, self.worker = folder, str(worker)
        self._taken: dict[str, bool] = {}

    def takes(self, group: str) -> bool:
        """Tell whether the group is this worker's, taking it when nobody has it."""
        if self.folder is None:
            return True
        if group not in self._taken:
            self._taken[group] = self._claim(Path(self.folder) / group.replace("/", "_").replace(":", "_"))
        return self._taken[group]

    def _claim(self, path: Path) -> bool:
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return path.read_text(encoding="utf-8") == self.worker
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self.worker)
        return True
