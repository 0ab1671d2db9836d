"""The two streams of a command: results on stdout, everything said about them on stderr."""

import json
import shutil
import sys
from typing import Any, TextIO


def out(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")


def out_json(value: Any) -> None:
    """The result as one JSON document."""
    out(json.dumps(value, indent=2, ensure_ascii=False))


def say(sentence: str) -> None:
    """A line for whoever watches. It may quote a model or a file: nothing reaches the terminal but text."""
    sys.stderr.write("".join(c if c.isprintable() or c == "\n" else "?" for c in sentence) + "\n")
    sys.stderr.flush()


def terminal_width(stream: TextIO) -> int | None:
    """In cells; None where the stream is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
