"""Multi-turn episodes near the ground truth and far from it, seeded: `mutant(row, pool, rng)`.

An episode is a list of turns, a turn a list of steps, a step a list of call strings: what a decoder hands to the
checker. Each mutation takes such a list and gives a new one. Nothing here is Python beyond what an honest model's
output decodes to: calls, literals, nested calls, and text that is no call at all.
"""

import ast
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from envs.bfcl.dataset import Row

Episode = list[list[list[str]]]

FAILING = (
    "no_such_tool(x=1)",
    "GorillaFileSystem.cd(folder='document')",
    "cd()",
    "cd(folder='a', depth=2)",
    "ls(",
    "pwd",
    "'text alone'",
    "find(path=)",
    "kill()",
    "os.remove(path='x')",
    "mean(numbers=[1, 'a'])",
    "add(a=1, b=2) extra",
    "tail(file_name='x', lines='3')",
    "update_market_status(current_time_str='noon')",
    "get_order_details(order_id={'a': [1, 2.5, None]})",
    "edit_ticket(ticket_id=1, updates={'colour': 'red', 'size': 2})",
    "book_flight(access_token='x', card_id='y', travel_date='2024', travel_from='A', travel_to='B', travel_class='c')",
    "verify_traveler_information(first_name='A', last_name='B', date_of_birth='1990-13-01', passport_number='U')",
)
TEXTS = (
    "call ls (now)",
    "cd (home) then cat(file)",
    "unknown (thing) and pwd()",
    'it\'s \\ a "quote" \n and é \U0001f600',
    "sort(x) sort(y) mean (z)",
    "",
)
VALUES = (
    "'x'",
    "0",
    "-1",
    "3.5",
    "True",
    "None",
    "[]",
    "['a', 'b']",
    "{}",
    "{'a': 1}",
    "'2024-11-10'",
    "1000000",
    "(1,)",
)


class Pool(NamedTuple):
    """All ground-truth calls by tool name, to borrow from."""

    calls: Mapping[str, list[str]]


def pool_of(rows: Sequence[Row]) -> Pool:
    calls: dict[str, list[str]] = {}
    for row in rows:
        for call in (call for turn in row.ground_truth for call in turn):
            calls.setdefault(call.split("(")[0], []).append(call)
    return Pool(calls)


def one_step(row: Row) -> Episode:
    """The ground truth with one step a turn."""
    return [[list(turn)] if turn else [] for turn in row.ground_truth]


def one_call_a_step(row: Row) -> Episode:
    return [[[call] for call in turn] for turn in row.ground_truth]


def mutant(row: Row, pool: Pool, rng: random.Random) -> tuple[str, Episode]:
    """One to three mutations of the ground truth, and their names."""
    episode = rng.choice((one_step, one_call_a_step))(row)
    chosen = rng.choices(MUTATIONS, k=rng.choice((1, 1, 1, 2, 2, 3)))
    for mutate in chosen:
        mutate(episode, row, pool, rng)
    return "+".join(mutate.__name__ for mutate in chosen), episode


def _steps(episode: Episode) -> list[list[str]]:
    return [step for turn in episode for step in turn if step]


def _some_call(row: Row, pool: Pool, rng: random.Random) -> str:
    names = [doc["name"] for doc in row.functions if doc["name"] in pool.calls]
    return rng.choice(pool.calls[rng.choice(names)])


def drop_last(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    if steps := _steps(episode):
        steps[-1].pop()


def drop_any(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    if steps := _steps(episode):
        step = rng.choice(steps)
        del step[rng.randrange(len(step))]


def add_failing(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    turn = rng.choice(episode)
    turn.insert(rng.randint(0, len(turn)), [rng.choice(FAILING)])


def add_borrowed(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """Another task's call of a tool that this one has: mostly a wrong state or a harmless look."""
    turn = rng.choice(episode)
    turn.insert(rng.randint(0, len(turn)), [_some_call(row, pool, rng)])


def repeat_turn(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    turn = rng.choice(episode)
    turn += copy.deepcopy(turn)


def work_early(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """A turn's calls are made one turn before, and in their place one that fails."""
    if len(episode) < 2:
        return
    turn = rng.randrange(1, len(episode))
    episode[turn - 1] += episode[turn]
    episode[turn] = [["no_such_tool(x=1)"]] if rng.random() < 0.7 else []


def call_where_none(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    quiet = [turn for turn, calls in zip(episode, row.ground_truth, strict=True) if not calls]
    (rng.choice(quiet) if quiet else episode[0]).append([_some_call(row, pool, rng)])


def many_steps(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """21 steps or more in the last turn, or in an earlier one."""
    turn = episode[-1] if rng.random() < 0.5 else rng.choice(episode)
    step = turn[-1] if turn else [_some_call(row, pool, rng)]
    turn += [list(step) for _ in range(21 - len(turn))]


def empty_turn(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    rng.choice(episode)[:] = rng.choice(([], [[]], [[], []]))


def reorder_turn(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    if steps := _steps(episode):
        rng.shuffle(rng.choice(steps))
    rng.shuffle(rng.choice(episode))


def swap_turns(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    one, other = rng.randrange(len(episode)), rng.randrange(len(episode))
    episode[one], episode[other] = episode[other], episode[one]


def _edit(episode: Episode, rng: random.Random, edit: Callable[[ast.Call], None]) -> None:
    """Change the syntax of one call and print it anew."""
    if steps := _steps(episode):
        step = rng.choice(steps)
        index = rng.randrange(len(step))
        try:
            tree = ast.parse(step[index], mode="eval")
        except SyntaxError:
            return
        if isinstance(tree.body, ast.Call):
            edit(tree.body)
            step[index] = ast.unparse(tree)


def _values(call: ast.Call) -> list[ast.keyword]:
    return [keyword for keyword in call.keywords if keyword.arg]


def wrong_value(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    def edit(call: ast.Call) -> None:
        if keywords := _values(call):
            rng.choice(keywords).value = ast.parse(rng.choice(VALUES), mode="eval").body

    _edit(episode, rng, edit)


def near_value(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """A number a little off, or of the other type; text with a letter more or in upper case."""

    def edit(call: ast.Call) -> None:
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and rng.random() < 0.6:
                node.value = _nearby(node.value, rng)

    _edit(episode, rng, edit)


def _nearby(value: object, rng: random.Random) -> object:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, float(value), str(value)))
    if isinstance(value, float):
        return rng.choice((value + 0.5, int(value), str(value)))
    return rng.choice((f"{value}s", str(value).upper(), f" {value}"))


def text_that_looks_like_a_call(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    def edit(call: ast.Call) -> None:
        texts = [keyword for keyword in _values(call) if isinstance(keyword.value, ast.Constant)]
        texts = [keyword for keyword in texts if isinstance(keyword.value.value, str)]
        if texts:
            rng.choice(texts).value = ast.Constant(rng.choice(TEXTS))

    _edit(episode, rng, edit)


def same_text_on_both_sides(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """An echo of text that looks like a call, as an extra step."""
    rng.choice(episode).append([f"echo(content={rng.choice(TEXTS)!r}, file_name={rng.choice(('n.txt', None))!r})"])


def swap_arguments(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    def edit(call: ast.Call) -> None:
        values = [keyword.value for keyword in call.keywords]
        rng.shuffle(values)
        for keyword, value in zip(call.keywords, values, strict=True):
            keyword.value = value

    _edit(episode, rng, edit)


def rename_argument(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    def edit(call: ast.Call) -> None:
        if keywords := _values(call):
            rng.choice(keywords).arg = rng.choice(("name", "value", "file_name", "class_"))

    _edit(episode, rng, edit)


def positional(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    def edit(call: ast.Call) -> None:
        call.args += [keyword.value for keyword in call.keywords]
        call.keywords = []

    _edit(episode, rng, edit)


def nested_call(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """An argument becomes another call of the task's tools, or an item of what that returns."""

    def edit(call: ast.Call) -> None:
        inner = ast.parse(_some_call(row, pool, rng), mode="eval").body
        if rng.random() < 0.3:
            inner = ast.Subscript(inner, ast.Constant(rng.choice(("result", "error", 0))), ast.Load())
        if keywords := _values(call):
            rng.choice(keywords).value = inner
        else:
            call.args.append(inner)

    _edit(episode, rng, edit)


def spaced(episode: Episode, row: Row, pool: Pool, rng: random.Random) -> None:
    """Spaces and line breaks where Python allows them, and before, where only `eval` does."""
    if steps := _steps(episode):
        step = rng.choice(steps)
        index = rng.randrange(len(step))
        step[index] = rng.choice((f"  {step[index]} ", step[index].replace("(", " (", 1), f"({step[index]},\n)", "\n"))


MUTATIONS = (
    drop_last,
    drop_any,
    add_failing,
    add_borrowed,
    add_borrowed,
    repeat_turn,
    work_early,
    call_where_none,
    many_steps,
    empty_turn,
    reorder_turn,
    swap_turns,
    wrong_value,
    near_value,
    text_that_looks_like_a_call,
    same_text_on_both_sides,
    swap_arguments,
    rename_argument,
    positional,
    nested_call,
    spaced,
)
