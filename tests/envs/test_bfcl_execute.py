"""The executor of BFCL call strings, and the simulators behind it, apart from parity (see `tests/parity`)."""

import os
import random
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from envs.bfcl.call_syntax import DENIED
from envs.bfcl.dataset import Row, load
from envs.bfcl.multi_turn import check_multi_turn, check_multi_turn_strict
from envs.bfcl.simulators import Simulation
from envs.bfcl.source import CLASS_FILES
from envs.bfcl.tasks import UNWINNABLE

REFUSED = "Error during execution: "


@pytest.fixture(scope="module")
def rows(bfcl_data: Path) -> list[Row]:
    return [row for row in load("test").rows.values() if row.multi_turn]


@pytest.fixture
def files(rows: list[Row]) -> Simulation:
    """A file system and Twitter."""
    return Simulation(next(row for row in rows if row.id == "multi_turn_base_0"))


def of_class(rows: list[Row], name: str, *, long_context: bool = False) -> Simulation:
    found = [row for row in rows if name in row.involved_classes and row.long_context == long_context]
    return Simulation(found[0])


def one(simulation: Simulation, call: str) -> tuple[str, Any]:
    (executed,) = simulation.execute([call])
    assert simulation.error_class(call, executed.text) == executed.error
    return executed.text, executed.error


@pytest.mark.parametrize(
    ("call", "result", "error"),
    [
        ("pwd()", '{"current_working_directory": "/workspace"}', None),
        ("mkdir(dir_name='new')", "None", None),
        ("cd(folder='nowhere')", None, "tool_error"),
        ("nothing(x=1)", f"{REFUSED}name 'nothing' is not defined", "unknown_tool"),
        ("GorillaFileSystem.pwd()", f"{REFUSED}name 'GorillaFileSystem' is not defined", "unknown_tool"),
        ("pwd", f"{REFUSED}name 'pwd' is not defined", "unknown_tool"),
        ("_load_scenario(scenario={})", f"{REFUSED}name '_load_scenario' is not defined", "unknown_tool"),
        ("remove(x=1)", f"{REFUSED}Function call remove is not allowed.", "unknown_tool"),
        (
            "cd()",
            f"{REFUSED}GorillaFileSystem.cd() missing 1 required positional argument: 'folder'",
            "bad_arguments",
        ),
        ("cd(a=1, a=2)", f"{REFUSED}keyword argument repeated: a (<string>, line 1)", "bad_arguments"),
        ("cd(folder='a' 1)", None, "bad_arguments"),
        ("do it(x=1)", None, "unknown_tool"),
        ("cat(file_name=5)", f"{REFUSED}argument of type 'int' is not iterable", "exception"),
        (
            "echo(content=pwd()['current_working_directory'])",
            '{"terminal_output": "/workspace"}',
            None,
        ),
        ("", f"{REFUSED}invalid syntax (<string>, line 0)", "unknown_tool"),
    ],
)
def test_results_and_errors_have_upstreams_words_and_a_class(
    files: Simulation, call: str, result: str | None, error: Any
) -> None:
    text, found = one(files, call)
    assert found == error
    assert result is None or text == result


@pytest.mark.parametrize(
    "call",
    [
        "open('/etc/hostname').read()",
        "echo(content=open('/etc/hostname').read())",
        "__import__('os').system('true')",
        "eval('1')",
        "json.dumps(1)",
        "initial_config",
        "copy.deepcopy(1)",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "pwd().keys()",
        "pwd().__class__.__mro__",
        "echo(content=f'{1}')",
        "echo(content='a' * 10**9)",
        "echo(content=9**9**9**9)",
        "echo(content=1 << 10**9)",
        "echo(*['a'])",
        "echo(**{'content': 'a'})",
        "1 if True else 2",
        "1 < 2",
        "(x := 1)",
        "pwd()[0:1]",
        "model_multi_turn_base_0_gorillafilesystem_instance",
        "model_multi_turn_base_0_gorillafilesystem_instance.root",
        "model_multi_turn_base_0_gorillafilesystem_instance._load_scenario({})",
        "model_multi_turn_base_0_gorillafilesystem_instance.__init__()",
        "await pwd()",
        "{**pwd()}",
    ],
)
def test_python_beyond_calls_and_literals_gets_an_error_text_and_changes_nothing(files: Simulation, call: str) -> None:
    before = files.state_digest()
    text, error = one(files, call)
    assert text.startswith(REFUSED)
    assert error in ("exception", "unknown_tool", "bad_arguments")
    assert files.state_digest() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("power(base=9, exponent=10**9)", "operator Pow is not supported"),
        ("power(base=9, exponent=999999999)", "Exceeds the limit (4300 digits)"),
        ("power(9, 999999999)", "Exceeds the limit (4300 digits)"),
        ("square_root(number=2, precision=999999999)", "over 10000, the harness's limit"),
        ("logarithm(value=2, base=3, precision=999999999)", "over 10000, the harness's limit"),
        ("round_number(number=5, decimal_places=-999999999)", "over 10000, the harness's limit"),
    ],
)
def test_one_short_call_cant_compute_for_ever(rows: list[Row], call: str, message: str) -> None:
    simulation = of_class(rows, "MathAPI")
    start = time.process_time()
    text, error = one(simulation, call)
    assert message in text
    assert error == "exception"
    assert time.process_time() - start < 1


@pytest.mark.parametrize("base", [-1, 0, 1])
def test_powers_that_stay_small_are_computed_whatever_the_exponent(rows: list[Row], base: int) -> None:
    text, error = one(of_class(rows, "MathAPI"), f"power(base={base}, exponent=1000000000)")
    assert (text, error) == (f'{{"result": {abs(base)}}}', None)


def test_a_copy_of_a_directory_into_itself_has_a_digest(files: Simulation) -> None:
    files.run(["mkdir(dir_name='loop')", "cp(source='loop', destination='loop')"])
    assert len(files.state_digest()) == 32


def test_the_digest_sees_state_and_current_directory_and_not_looking(files: Simulation, rows: list[Row]) -> None:
    start = files.state_digest()
    files.run(["pwd()", "ls(a=True)", "find(path='.', name='report')"])
    assert files.state_digest() == start
    files.run(["cd(folder='document')"])
    inside = files.state_digest()
    files.run(["cd(folder='..')"])
    assert inside != start == files.state_digest()
    files.run(["touch(file_name='a')"])
    assert files.state_digest() not in (start, inside)
    cars = of_class(rows, "VehicleControlAPI")
    before = cars.state_digest()
    cars.run(["get_current_speed()"])
    assert cars.state_digest() != before, "the next reading depends on the random generator"


def test_a_row_can_be_played_again_from_its_start(rows: list[Row]) -> None:
    for row in rows[::50]:
        calls = [call for turn in row.ground_truth or () for call in turn]
        first, second = Simulation(row), Simulation(row)
        opening = second.state_digest()
        results = first.run(calls)
        assert second.state_digest() == opening
        assert second.run(calls) == results
        assert second.state_digest() == first.state_digest()


def test_a_mention_in_one_episode_is_not_seen_in_the_next(rows: list[Row]) -> None:
    row = next(row for row in rows if "TwitterAPI" in row.initial_config and not row.long_context)
    config = row.initial_config["TwitterAPI"]
    calls = [
        f"authenticate_twitter(username={config['username']!r}, password={config['password']!r})",
        "post_tweet(content='a')",
        f"mention(tweet_id={config.get('tweet_counter', 0)}, mentioned_usernames=['@b'])",
    ]
    results = [Simulation(row).run(calls) for _ in range(2)]
    assert '"mentions": []' in results[0][1]
    assert results[0] == results[1]
    for _ in range(2):
        assert check_multi_turn([[turn] for turn in row.ground_truth or ()], row).valid
        check_multi_turn([[calls], *([] for _ in (row.ground_truth or ())[1:])], row)


SCRIPT = """
import sys, hashlib, json
before = set(sys.modules)
path = list(sys.path)
from envs.bfcl.dataset import load
from envs.bfcl.simulators import Simulation
out = []
for row in [row for row in load("test").rows.values() if row.multi_turn][::20]:
    simulation = Simulation(row)
    out += [simulation.run(turn) for turn in row.ground_truth]
    out.append(simulation.run([
        "book_flight(access_token='x', card_id='y', travel_date='2024-01-01', travel_from='SFO', travel_to='LAX', travel_class='sky')",
        "edit_ticket(ticket_id=1, updates={'colour': 'red', 'size': 2, 'x': 1})",
        "fund_account(amount=5)", "get_transaction_history()",
        "authenticate_travel(client_id='a', client_secret='b', refresh_token='c', grant_type='read_write', user_first_name='A', user_last_name='B')",
        "verify_traveler_information(first_name='A', last_name='B', date_of_birth='2007-08-06', passport_number='US1')",
    ]))
    out.append(simulation.state_digest())
assert not [name for name in sys.modules if name.startswith("bfcl_eval")], "bfcl_eval was imported"
assert sys.path == path
print(hashlib.sha256(json.dumps(out).encode()).hexdigest())
"""


def test_results_are_the_same_bytes_in_any_zone_process_and_beside_an_installed_bfcl_eval(
    bfcl_data: Path, tmp_path: Path
) -> None:
    package = tmp_path / "bfcl_eval"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the installed package was imported')")
    places = [("UTC", "0"), ("Asia/Kolkata", "1"), ("America/New_York", "2")]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for zone, seed in places
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(set(outputs)) == 1
    assert len(outputs[0]) == 65


def test_no_simulator_holds_a_way_to_the_host(rows: list[Row]) -> None:
    for name in CLASS_FILES:
        instance = of_class(rows, name).instances[name]
        namespace = vars(type(instance))["__init__"].__globals__
        assert not {"open", "eval", "exec", "compile", "input", "breakpoint"} & set(namespace["__builtins__"])
        modules = {value for value in namespace.values() if isinstance(value, types.ModuleType)}
        assert {module.__name__ for module in modules} <= {"random", "math", "copy"}
        with pytest.raises(ImportError, match="may not import 'os'"):
            namespace["__builtins__"]["__import__"]("os")


def test_no_tool_has_a_name_that_upstream_denies(rows: list[Row]) -> None:
    tools = {tool for row in rows for tool in Simulation(row).tools}
    assert len(tools) == 129
    assert not tools & DENIED


def test_the_tools_are_those_that_the_documents_describe(rows: list[Row]) -> None:
    for row in rows[::10]:
        assert {doc["name"] for doc in row.functions} <= set(Simulation(row).tools)


def test_logarithms_in_many_threads_keep_their_precision(rows: list[Row]) -> None:
    import mpmath

    before = mpmath.mp.dps
    calls = [f"logarithm(value={2 + number}, base=10, precision={3 + number % 40})" for number in range(60)]
    expected = {call: of_class(rows, "MathAPI").run([call]) for call in calls}

    def run(call: str) -> bool:
        return of_class(rows, "MathAPI").run([call]) == expected[call]

    work = random.Random(3).choices(calls, k=600)
    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(run, work))
    assert mpmath.mp.dps == before
    assert len({len(result[0]) for result in expected.values()}) > 20


def test_decimal_precision_does_not_leak_into_the_caller(rows: list[Row]) -> None:
    import decimal

    before = decimal.getcontext().prec
    of_class(rows, "MathAPI").run(["square_root(number=2, precision=7)"])
    assert decimal.getcontext().prec == before


def test_a_stray_backslash_neither_warns_nor_depends_on_the_callers_filters(files: Simulation) -> None:
    assert one(files, r"echo(content='\d+')")[0] == r'{"terminal_output": "\\d+"}'


def test_an_episode_that_does_nothing_fails_at_its_first_busy_turn(rows: list[Row]) -> None:
    for row in rows[::25]:
        truth = row.ground_truth or []
        found = check_multi_turn([[] for _ in truth], row)
        assert (found.valid, found.error_type) == (False, "multi_turn:empty_turn_model_response")
        assert found.detail["turn"] == next(turn for turn, calls in enumerate(truth) if calls)


def test_strict_counts_the_turns_that_pass_and_those_kept_quiet(rows: list[Row]) -> None:
    row = next(row for row in rows if row.category == "multi_turn_miss_func")
    truth = row.ground_truth or []
    busy = sum(1 for calls in truth if calls)
    perfect = check_multi_turn_strict([[calls] if calls else [] for calls in truth], row)
    assert perfect.valid
    assert perfect.detail == {
        "turns_checked": busy,
        "turns_passed": busy,
        "no_call_turns": len(truth) - busy,
        "no_call_kept": len(truth) - busy,
    }
    noisy = check_multi_turn_strict([[calls or ["pwd()"]] for calls in truth], row)
    assert noisy.valid
    assert (noisy.detail["turns_passed"], noisy.detail["no_call_kept"]) == (busy, 0)
    last = max(turn for turn, calls in enumerate(truth) if calls)
    late = check_multi_turn_strict([[calls] if calls and turn < last else [] for turn, calls in enumerate(truth)], row)
    assert (late.valid, late.error_type) == (False, "multi_turn:empty_turn_model_response")
    assert late.detail["turns_passed"] == busy - 1
    short = check_multi_turn_strict([[calls] if calls else [] for calls in truth[:1]], row)
    assert (short.error_type, short.detail["turns_passed"]) == ("multi_turn:force_terminated", 1)


def test_the_unwinnable_task_is_the_one_whose_turns_dont_match(rows: list[Row]) -> None:
    unwinnable = {task_id for task_id in UNWINNABLE if task_id.startswith("multi_turn")}
    assert {row.id for row in rows if len(row.question) != len(row.ground_truth or ())} == unwinnable


def test_a_wrong_state_names_class_and_attribute(rows: list[Row]) -> None:
    row = next(row for row in rows if row.id == "multi_turn_base_0")
    turns = [[turn] for turn in row.ground_truth or ()]
    turns[0] = [["touch(file_name='extra.txt')", *turns[0][0]]]
    found = check_multi_turn(turns, row)
    assert found.error_type == "multi_turn:instance_state_mismatch"
    assert found.detail == {"turn": 0, "class": "GorillaFileSystem", "attributes": ["root"]}
