"""What a model is told: the task's own prompt in a fenced block after one instruction, by upstream's structure (spec 2.2).

The official instruction is read from the wheel that `harness data pull evalplus` fetches (string constants, by the syntax tree; nothing of
it is run). `OURS` says the same in other words.
"""

import ast
import zipfile
from functools import cache
from pathlib import Path

from trajectories.failures import InputError
from trajectories.schema import Message

OURS = "Solve the problem below with one self-contained Python program. Answer with the program in a single fenced code block."
WHEEL_FILE = "evalplus/codegen.py"
CONSTANT = "instruction_prefix"


def question(prompt: str, instruction: str) -> tuple[Message, ...]:
    """One user message."""
    return (Message(role="user", content=f"{instruction}\n```python\n{prompt.strip()}\n```"),)


@cache
def official_instruction(wheel: Path) -> str:
    """InputError where the wheel has no such text."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            tree = ast.parse(archive.read(WHEEL_FILE))
    except (OSError, KeyError, zipfile.BadZipFile, SyntaxError) as error:
        raise InputError(
            f"{str(wheel)!r} is no wheel of evalplus ({error}): run 'harness data pull evalplus' again."
        ) from error
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == CONSTANT
            and isinstance(node.value, ast.Constant)
        ):
            return str(node.value.value)
    raise InputError(f"{str(wheel)!r} has no text {CONSTANT!r}: run 'harness data pull evalplus' again.")
