"""A task that ends its worker the way an out-of-memory killer does. A module, so that workers can import it."""

from __future__ import annotations

import os
import signal


def kill_worker(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
