"""What a model is asked, by style: upstream's structure in our own words (spec 1.3, 1.9).

A question has the problem's text, one instruction about the form with a fenced block of starter code (or a placeholder), and a request for
the answer in backticks. Styles differ in where the persona stands and in how the form is asked for. Upstream's templates with a model's
control tokens have no counterpart: the chat template of the model's own tokenizer does that.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from envs.livecodebench.records import Problem
from trajectories.schema import Message

PERSONA = (
    "You are an expert Python programmer. You are given a programming problem and write a correct Python program that meets "
    "its specification and passes every test."
)
WITH_STARTER = "Write the solution with the starter code below, and put your code between the fences."
ON_STDIN = (
    "Read the input from standard input, solve the problem, and write the answer to standard output. Do not test your program on the "
    "sample inputs. Put your code between the fences."
)
WITH_MAIN = (
    "Write a program with a function main() that reads the input from standard input and writes the answer to standard output, and "
    "call main() at the end. Put your code between the fences."
)
PLACEHOLDER = "# your code"

EXAMPLE_PROGRAM = """### Question
Two whole numbers stand on one line. Print their sum.

### Answer

a, b = map(int, input().split())
print(a + b)
"""
EXAMPLE_FUNCTION = """### Question
Return the sum of two whole numbers.

### Starter Code
class Solution:
    def add(self, a: int, b: int) -> int:

### Answer

class Solution:
    def add(self, a: int, b: int) -> int:
        return a + b
"""


class Style(NamedTuple):
    """How a question is put, and the rule by which the answer is read (`extraction.RULES`)."""

    messages: Callable[[Problem], tuple[Message, ...]]
    extraction: str = "official"


def body(problem: Problem, on_stdin: str = ON_STDIN) -> str:
    """The question, the form, and the place for the answer."""
    instruction = WITH_STARTER if problem.starter_code else on_stdin
    return (
        f"### Question:\n{problem.content}\n\n### Format: {instruction}\n"
        f"```python\n{problem.starter_code or PLACEHOLDER}\n```\n\n"
        "### Answer: (put it between backticks, in the form above)\n\n"
    )


def chat(problem: Problem) -> tuple[Message, ...]:
    """Persona as system message, question as user message (upstream's OpenAIChat and most others)."""
    return (Message(role="system", content=PERSONA), Message(role="user", content=body(problem)))


def one_message(problem: Problem) -> tuple[Message, ...]:
    """All in one user message (upstream's OpenAIReasonPreview, Grok)."""
    return (Message(role="user", content=f"{PERSONA}\n\n{body(problem)}"),)


def main_function(problem: Problem) -> tuple[Message, ...]:
    """As `one_message`, asking programs for a main() (upstream's OpenAIReason)."""
    return (Message(role="user", content=f"{PERSONA}\n\n{body(problem, WITH_MAIN)}"),)


def stripped(problem: Problem) -> tuple[Message, ...]:
    """As `chat`, with nothing after the last word (upstream's Claude3)."""
    return (Message(role="system", content=PERSONA), Message(role="user", content=body(problem).rstrip()))


def base(problem: Problem) -> tuple[Message, ...]:
    """One worked example, then the question, without fences: for models that continue a text (upstream's GenericBase)."""
    example = EXAMPLE_FUNCTION if problem.starter_code else EXAMPLE_PROGRAM
    starter = f"### Starter Code\n{problem.starter_code}\n\n" if problem.starter_code else ""
    return (Message(role="user", content=f"{example}\n### Question\n{problem.content}\n\n{starter}### Answer\n\n"),)


STYLES: Mapping[str, Style] = {
    "default": Style(chat),
    "one_message": Style(one_message),
    "main": Style(main_function),
    "stripped": Style(stripped),
    "base": Style(base, "whole"),
    "first_block": Style(chat, "first_block"),
    "last_block": Style(chat, "last_block"),
    "tagged": Style(chat, "tagged"),
}
"""Profiles of one question and one answer."""
