"""All code that depends on the operating system; other modules never ask for the system.

    linux.py     workers and the watched program are copies of a process; memory limits of processes and control groups
    macos.py     workers are new processes of Python, and nobody watches the program
    windows.py   the same, without the signals and limits of Unix
    posix.py     signals, limits and locks that Linux and macOS share

Decoders are confined on Linux only (``confinement.py``, ``evaluation.files.decoding.guard``). Imports only the standard
library: this package is there before the first signal, and where memory is short.
"""

import sys

if sys.platform == "win32":
    from evaluation.files.system import windows as _family
    from evaluation.files.system import windows as _system
elif sys.platform == "linux":
    from evaluation.files.system import linux as _system
    from evaluation.files.system import posix as _family
else:
    from evaluation.files.system import macos as _system
    from evaluation.files.system import posix as _family
from evaluation.files.system.memory import UNLIMITED, MemoryLeft

STOPPING = _family.STOPPING
held_signals = _family.held_signals
lock_handle = _family.lock_handle
long_path = _family.long_path
restore_signals = _family.restore_signals
signal_again = _family.signal_again
too_low_limit = _family.too_low_limit

be_killed_first = _system.be_killed_first
can_fork = _system.can_fork
end_with_parent = _system.end_with_parent
fork = _system.fork
memory_left = _system.memory_left
memory_limit = _system.memory_limit
missing_here = _system.missing_here
process_limit = _system.process_limit
usable_processors = _system.usable_processors
