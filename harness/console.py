"""The two streams of a command: results on stdout, everything said about them on stderr."""

import json
import sys
from typing import Any


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
