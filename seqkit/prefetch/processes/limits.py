"""Name the limits of the system that keep workers from starting."""

from __future__ import annotations

import errno

from ...core.units import size


def name_limit(error: OSError, nbytes: int = 0) -> None:
    """Add to the text of an error which limit of the system was reached.

    `nbytes` is the size of the memory that was requested, or 0 if a process was to be started.
    """
    if error.errno == errno.EAGAIN:
        most = _limit("RLIMIT_NPROC")
        why = "no further process can be started. The limit of processes and threads of this user"
        why += f" (`ulimit -u`) is {most}" if most else " or of this container was reached"
        text = f"prefetch: {why}. Use fewer workers, or raise the limit"
    elif error.errno == errno.EFBIG:
        most = _limit("RLIMIT_FSIZE")
        why = f", and the limit of file sizes (`ulimit -f`) is {size(most)}" if most else ""
        text = f"prefetch: workers need shared memory of {size(nbytes)}{why}. Raise the limit"
    elif error.errno == errno.ENOMEM:
        most = _limit("RLIMIT_AS")
        why = f", and the limit of address space (`ulimit -v`) is {size(most)}" if most else ""
        text = f"prefetch: workers need shared memory of {size(nbytes)}{why}"
    else:
        return
    error.strerror = f"{error.strerror}. {text}"


def _limit(name: str) -> int:
    """Return a limit of this process, or 0 if there is none."""
    import resource

    most = resource.getrlimit(getattr(resource, name))[0]
    return 0 if most == resource.RLIM_INFINITY else most
