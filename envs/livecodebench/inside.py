"""What runs in the jail beside a solution, to give it the surroundings that upstream's grader gives it.

This file's text is sent into the jail; it needs nothing but the standard library. It knows inputs and no expected output, and what
it says there is a claim of the solution: a solution that takes it over can only give wrong answers. Source of the behaviour:
LiveCodeBench 28fef95, `testing_util.py`, restated (spec 1.5); the quirks are named where they come from.
"""

import ast
import builtins
import importlib
import io
import os
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

REMOVED = (
    "kill", "system", "putenv", "remove", "removedirs", "rmdir", "fchdir", "setuid", "fork", "forkpty",
    "killpg", "rename", "renames", "truncate", "replace", "unlink", "fchmod", "fchown", "chmod", "chown",
    "chroot", "lchflags", "lchmod", "lchown", "getcwd", "chdir",
)  # fmt: skip
BLOCKED = ("ipdb", "joblib", "resource", "psutil", "tkinter")
INT_DIGITS = 50_000
MOST_BITS = 166_097
"""Ints of more bits have more than INT_DIGITS digits."""

target: Any = None
"""The function that is called, once `load` has found it."""

seconds = 6


class TimeoutException(Exception):
    """The alarm of the time limit."""


class Unprintable(Exception):
    """The result is an int with more digits than may be printed: upstream fails where it reports the wrong answer."""


def load(code: str, prelude: str, function: str | None, time_limit_s: int) -> None:
    """Make the solution callable. What is raised here is upstream's error of compiling; `[-4]` whatever it is."""
    global target, seconds
    seconds = time_limit_s
    sys.set_int_max_str_digits(INT_DIGITS)
    if "numpy" in code:
        with suppress(ImportError):
            importlib.import_module("numpy")  # upstream has it loaded before the guard
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGALRM, _time_is_up)
    _guard()
    with _ends_on_exit():
        signal.alarm(seconds)
        text = f"{prelude}\n\n{code}" if function else _as_function(code, prelude)
        target = _found(text, function or "wrapped_function")
        signal.alarm(0)


def call(arguments: Sequence[Any]) -> Any:
    """One test of a function. Q13: an array is sent as it is, and compared as upstream compares it."""
    signal.alarm(seconds)
    with _ends_on_exit():
        try:
            result = target(*arguments)
        finally:
            signal.alarm(0)
    if type(result) is int and result.bit_length() > MOST_BITS:
        raise Unprintable
    return result


def run(text: str) -> str:
    """One test of a program: its output on this standard input."""
    with _captured() as out, _ends_on_exit():
        signal.alarm(seconds)
        try:
            with _fed(text), suppress(SystemExit):
                target()
        finally:
            signal.alarm(0)
    return out.getvalue()


def _time_is_up(number: int, frame: Any) -> None:
    print("time is up")  # noqa: T201 - a program that goes on after the alarm has this line in its output, as upstream
    raise TimeoutException


def _guard() -> None:
    """The functions that upstream takes away. No protection: what is not allowed in the jail fails there anyhow."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in REMOVED:
        setattr(os, name, None)
    for name in ("rmtree", "move", "chown"):
        setattr(shutil, name, None)
    for module, name in ((builtins, "quit"), (builtins, "help"), (subprocess, "Popen")):
        setattr(module, name, None)
    for name in BLOCKED:
        sys.modules[name] = None  # type: ignore[assignment]


@contextmanager
def _ends_on_exit() -> Generator[None]:
    """What is no Exception ends upstream's process without a result, and so it ends this one."""
    try:
        yield
    except Exception:
        raise
    except BaseException:  # noqa: BLE001
        os._exit(0)


def _as_function(code: str, prelude: str) -> str:
    """The program as the body of a function, its imports before it; as it is where that can't be done (Q7, Q9, Q10)."""
    try:
        body = _without_guard(ast.parse(code).body)
        imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        rest = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        function = ast.FunctionDef(name="wrapped_function", args=empty, body=rest, decorator_list=[], lineno=-1)
        return "\n".join([prelude, _text(imports), _text(function)])
    except Exception:  # noqa: BLE001 - as upstream
        return code


def _without_guard(body: list[ast.stmt]) -> list[ast.stmt]:
    """Q8: the last statement alone, and written in just this way, is taken for the main guard; its else branch goes."""
    if body and isinstance(body[-1], ast.If) and _text(body[-1].test).strip() == "__name__ == '__main__'":
        return body[:-1] + body[-1].body
    return body


def _text(node: Any) -> str:
    return ast.unparse(node)


def _found(text: str, name: str) -> Callable[..., Any]:
    module = types.ModuleType("tmp_sol", "")
    exec(text, module.__dict__)  # noqa: S102 - what the jail is for
    holder = module.Solution() if "class Solution" in text else module
    found = getattr(holder, name)
    if found is None:
        raise TypeError(f"{name} is None")
    return found


class _Buffer:
    """Q2, Q3: every `readline` gives the first line, and there is nothing else but `read`."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()

    def read(self, *_: Any) -> bytes:
        return self._bytes

    def readline(self, *_: Any) -> bytes:
        return self._bytes.split(b"\n")[0] + b"\n"


class _Stdin:
    """Q1: lines can be read, but not iterated over. `read` gives the whole text each time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stream = io.StringIO(text)
        self.buffer = _Buffer(text)

    def read(self, *_: Any) -> str:
        return self._text

    def readline(self, *size: int) -> str:
        return self._stream.readline(*size)

    def readlines(self, *_: Any) -> list[str]:
        return self._text.split("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _fed(text: str) -> Generator[None]:
    """`sys.stdin` and `open` give the text; so does the real standard input, for those who hold it already (Q5)."""
    lines = iter(text.split("\n"))
    held, opener = sys.stdin, builtins.open
    given = {"read": lambda *_: text, "readlines": lambda *_: text.split("\n"), "readline": lambda *_: next(lines)}
    for name, method in given.items():
        setattr(held, name, method)
    stdin: Any = _Stdin(text)
    sys.stdin = stdin
    builtins.open = lambda *_, **__: io.StringIO(text)  # type: ignore[assignment]
    try:
        yield
    finally:
        builtins.open, sys.stdin = opener, held
        for name in given:
            delattr(held, name)


@contextmanager
def _captured() -> Generator[io.StringIO]:
    """Standard output into memory. It is text alone, without a buffer (Q6), and closing it is an error."""
    before, stream = sys.stdout, io.StringIO()
    stream.close = lambda _: None  # type: ignore[assignment, method-assign]
    sys.stdout = stream
    try:
        yield stream
    finally:
        sys.stdout = before
