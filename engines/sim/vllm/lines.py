"""How a line of vLLM's log looks, by release: prefixes, dates, colours."""

from __future__ import annotations

import os
import time
from typing import Final

from engines import Version

API, CORE, WORKER = "APIServer", "EngineCore", "Worker"
_AFTER_PID: Final = {API: 0, CORE: 44, WORKER: 65}
_CYAN, _PLAIN = "\x1b[1;36m", "\x1b[0;0m"


class Log:
    """Lines of one release.

    Args:
        release: the release as numbers.
    """

    def __init__(self, release: Version) -> None:
        self.release = release

    def line(self, process: str, place: str, text: str, level: str = "INFO") -> str:
        """Return a message as log lines: each line of it bears the prefix."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        where = f"[{place}]" if self.release >= (0, 8) else f"{place}]"
        head = f"{self._process(process)}{level} {stamp} {where} "
        return "\n".join(head + part for part in text.split("\n"))

    def _process(self, process: str) -> str:
        """Return the process part: from 0.10.1 on, in colour up to 0.11.2 even into files."""
        if self.release < (0, 10, 1):
            return ""
        if process == WORKER and self.release < (0, 31):
            process = CORE
        pid = os.getpid() + _AFTER_PID[process]
        if process == CORE and self.release < (0, 16):
            process = "EngineCore_0" if self.release < (0, 10, 2) else "EngineCore_DP0"
        text = f"({process} pid={pid})"
        return f"{_CYAN}{text}{_PLAIN} " if self.release <= (0, 11, 2) else f"{text} "
