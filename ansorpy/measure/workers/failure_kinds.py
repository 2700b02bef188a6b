"""Map the reply of a worker to the failure that is recorded."""

import signal

from ansorpy.measure.outcome import Failed, FailureKind
from ansorpy.measure.workers.crash import explain
from ansorpy.measure.workers.replies import Died, Misbehaved, Raised, Reply, Returned, TimedOut


def failed_build(reply: Reply, seconds: float) -> Failed:
    """Return the failure of a build that gave no machine code."""
    match reply:
        case TimedOut(timeout_s=timeout_s, excerpt=excerpt):
            message = f"not built within {timeout_s:g} s"
            return Failed("build-timeout", message, excerpt, seconds)
        case Raised(error="MemoryError", message=message, traceback=trace):
            return Failed("memory", f"while building: {message}", trace, seconds)
        case Raised(error=error, message=message, traceback=trace):
            return Failed("build", _line(f"{error}: {message}"), trace, seconds)
        case Died(code=code, excerpt=excerpt):
            return Failed("build", f"the compiler ended: {ending(code)}", excerpt, seconds)
        case Misbehaved(why=why, excerpt=excerpt):
            return Failed("build", _line(f"the compiler was killed: {why}"), excerpt, seconds)
        case Returned(value=value):
            return Failed("build", f"no machine code but {value!r}"[:500], reply.excerpt, seconds)


def failed_run(reply: Reply, seconds: float) -> Failed:
    """Return the failure of a check or a timing that gave no time."""
    match reply:
        case Returned(value=Failed() as failed):
            return Failed(failed.kind, failed.message, reply.excerpt, seconds)
        case Returned(value=value):
            return Failed("crash", f"no outcome but {value!r}"[:500], reply.excerpt, seconds)
        case TimedOut(timeout_s=timeout_s, note=note, excerpt=excerpt):
            phase, _ = explain(note, None)
            return Failed(
                "run-timeout", f"no end within {timeout_s:g} s ({phase})", excerpt, seconds
            )
        case Raised(error="MemoryError" | "DeviceMemoryError", message=message, traceback=trace):
            return Failed("memory", _line(f"in {reply.phase}: {message}"), trace, seconds)
        case Raised(phase=phase, error="OverrunError", message=message, traceback=trace):
            return Failed("out-of-bounds", _line(f"{phase}: {message}"), trace, seconds)
        case Raised(phase=phase, error=error, message=message, traceback=trace):
            kind: FailureKind = "load" if phase == "load" else "crash"
            return Failed(kind, _line(f"in {phase}: {error}: {message}"), trace, seconds)
        case Died():
            return _died(reply, seconds)
        case Misbehaved(why=why, note=note, excerpt=excerpt):
            phase, _ = explain(note, None)
            return Failed("crash", _line(f"{phase}: killed: {why}"), excerpt, seconds)


def ending(code: int) -> str:
    """Return the name of a signal (negative codes), or the exit code, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _died(died: Died, seconds: float) -> Failed:
    phase, overrun = explain(died.note, died.fault)
    how = ending(died.code)
    if overrun is not None and died.code in (-signal.SIGSEGV, -signal.SIGBUS):
        return Failed("out-of-bounds", f"{phase}: {overrun} ({how})", died.excerpt, seconds)
    if died.code == -signal.SIGXCPU:
        return Failed("run-timeout", f"{phase}: out of CPU time", died.excerpt, seconds)
    if died.code == -signal.SIGKILL:  # sent by the kernel: out of memory
        return Failed("memory", f"{phase}: killed", died.excerpt, seconds)
    where = f" at address {died.fault:#x}" if died.fault else ""
    return Failed("crash", f"{phase}: {how}{where}", died.excerpt, seconds)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]
