"""Source that runs in the jail before a solution, in its namespace.

It proves nothing, since the solution can change it: a changed guard is not our protection (the jail is), and a changed measure can only
turn a right result into a wrong one, since what is expected is not there.
"""

GUARD = """
def _guard():
    import builtins, io, os, shutil, subprocess, sys

    for name in ("exit", "quit", "open", "help"):
        setattr(builtins, name, None)
    for name in (
        "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace unlink fchmod "
        "fchown chmod chown chroot lchflags lchmod lchown getcwd chdir"
    ).split():
        setattr(os, name, None)
    for name in ("rmtree", "move", "chown"):
        setattr(shutil, name, None)
    subprocess.Popen = None
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None

    class Unreadable(io.StringIO):
        def read(self, *args):
            raise OSError

        readline = readlines = read

        def readable(self):
            return False

    sys.stdin = sys.stdout = sys.stderr = Unreadable()


_guard()
del _guard
"""
"""What upstream takes from code (spec 1.7 and 2.4): a part of the `official` verdict. Honest code that opens a file, asks for the working
directory or reads standard input fails by it."""

MEASURE_NAME = "_harness_measured"
MEASURE = f"""
def {MEASURE_NAME}(name, *args):
    value = globals()[name](*args)
    if type(value) not in (list, tuple) or sum(len(item) if type(item) in (list, tuple) else 1 for item in value) < {1 << 20}:
        return ["value", value]
    import hashlib, marshal

    digest = hashlib.blake2b(digest_size=32)
    for start in range(0, len(value), 4096):
        digest.update(marshal.dumps(value[start : start + 4096], 2))
    return ["digest", type(value).__name__, len(value), digest.hexdigest()]
"""
"""Calls a function; of a result of a million items it gives a digest, which equal results of the same exact types share."""

ITEMS_NAME = "_harness_items"
ITEMS = f"""
def {ITEMS_NAME}(name, *args):
    value = globals()[name](*args)
    return value if isinstance(value, (list, tuple, set, frozenset, dict, str)) else list(value)
"""
"""Calls a function whose result is compared as a set: upstream takes any iterable for one, and few of them could leave the jail."""
