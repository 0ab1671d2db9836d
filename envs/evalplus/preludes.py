"""Source that runs in the jail before a solution, in its namespace.

It proves nothing, since the solution can change it: a changed guard is not our protection (the jail is), and a changed measure can only
turn a right result into a wrong one, since what is expected is not there.
"""

GUARD = """
def _guard():
    import builtins, io, os, shutil, subprocess, sys

    sys.stdin = open("/dev/null", "w")
    sys.stdout = sys.stderr = io.StringIO()
    builtins.__dict__.update(dict.fromkeys(("exit", "quit", "open", "help")))
    os.__dict__.update(
        dict.fromkeys(
            "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace unlink fchmod "
            "fchown chmod chown chroot lchflags lchmod lchown getcwd chdir".split()
        )
    )
    shutil.rmtree = shutil.move = shutil.chown = subprocess.Popen = None
    sys.modules.update(dict.fromkeys(("ipdb", "joblib", "resource", "psutil", "tkinter")))


_guard()
del _guard
"""
"""What upstream takes from code (spec 1.7 and 2.4): a part of the `official` verdict. Honest code that opens a file, asks for the working
directory or reads standard input fails by it. (A file that is open for writing is a standard input whose reading raises OSError.)"""

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

EACH_NAME = "_harness_each"
EACH = f"""
def {EACH_NAME}(called, inputs):
    function, *first = called
    function = globals()[function]
    values = []
    try:
        for arguments in inputs:
            values.append(function(*first, *arguments))
    except BaseException as error:
        return [values, type(error).__name__]
    return [values, None]
"""
"""Makes many calls in one exchange; the values up to the first exception, and that one's name."""
