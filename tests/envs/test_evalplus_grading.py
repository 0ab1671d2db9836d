"""From a program to both graders' verdicts, in the local jail: honest code, honest code that upstream fails, and cheats."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from envs import judging
from envs.code_episodes import HandedIn
from envs.evalplus import execution, grading, references
from envs.evalplus.problems import Problem, find, task_of
from envs.sandbox.wire import Connection
from trajectories.failures import SandboxError
from trajectories.schema import EpisodeKey, Trajectory, Verdict


@pytest.fixture(scope="module", autouse=True)
def local() -> Iterator[None]:
    judging.use_sandbox("local", 1)
    yield
    judging.close()


def task(reference: str, base: Any, plus: Any = None, **more: Any) -> Problem:
    plus = base if plus is None else plus
    fields = {"category": "mbpp", "entry_point": "f", "prompt": '"""doc"""\n', "atol": 0.0} | more
    return Problem(
        id="Mbpp/90500",
        upstream_id="Mbpp/90500",
        canonical_solution=reference,
        raw_base=list(base),
        raw_plus=list(plus),
        **fields,
    )


DOUBLE = task("def f(x):\n    return 2 * x\n", [[1], [2]], [[5], [0], [-3]])


def graded(problem: Problem, solution: Any) -> dict[str, Verdict]:
    return grading.verdicts(problem, solution, "data")


def statuses(problem: Problem, solution: Any) -> list[str]:
    """base and plus of official, then of strict."""
    found = graded(problem, solution)
    return [str(found[grader].detail[tests]) for grader in ("official", "strict") for tests in ("base", "plus")]


def alike(problem: Problem, solution: Any) -> str:
    """The one status that both graders give both sets."""
    (status,) = set(statuses(problem, solution))
    return status


def test_a_right_solution_passes_and_the_verdict_names_grader_data_and_python() -> None:
    found = graded(DOUBLE, "def f(x):\n    return x + x\n")
    assert {name: (verdict.passed, verdict.score) for name, verdict in found.items()} == {
        "official": (True, 1.0),
        "strict": (True, 1.0),
    }
    assert found["official"].detail == {"base": "pass", "plus": "pass"}
    assert found["official"].grader == f"official@data,{judging.python()}"
    assert found["strict"].grader == f"strict{grading.STRICT_VERSION}@data,{judging.python()}"


def test_base_and_plus_are_told_apart_and_both_are_needed() -> None:
    found = graded(DOUBLE, "def f(x):\n    return 2 * abs(x)\n")["official"]
    assert found.detail == {"base": "pass", "plus": "fail", "plus_failure": {"test": 2, "why": "wrong result"}}
    assert (found.passed, found.score) == (False, 0.0)
    only_plus = graded(DOUBLE, "def f(x):\n    return 7 if x == 2 else 2 * x\n")["official"]
    assert (only_plus.detail["base"], only_plus.detail["plus"], only_plus.passed) == ("fail", "pass", False)


@pytest.mark.parametrize(
    "solution",
    [
        "", "   \n", "not python (", "x = 1", "def g(x):\n    return 2 * x\n", "def f():\n    return 2\n", "f = 3",
        "def f(x):\n    raise ValueError\n", "def f(x):\n    return f(x)\n", "import no_such_module\ndef f(x):\n    return 2 * x\n",
        "import sys\nsys.exit(0)\ndef f(x):\n    return 2 * x\n", "import sys\ndef f(x):\n    sys.exit(0)\n",
        "def f(x):\n    return (2 * x for _ in [0])\n", "\x00", "é\ud800 = 1", "#" * 300_000,
        None, 3, ["def f(x): return 2 * x"], {"solution": "x"},
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_what_is_no_solution_fails(solution: Any) -> None:
    assert alike(DOUBLE, solution) == "fail"


def test_a_process_that_ends_without_a_result_is_a_timeout_upstream_and_a_failure_by_right() -> None:
    for ending in ("import os\nos._exit(0)\n", "import ctypes\nctypes.string_at(0)\n"):
        assert statuses(DOUBLE, f"{ending}def f(x):\n    return 2 * x\n") == ["timeout", "timeout", "fail", "fail"]


def test_a_call_over_its_limit_fails_upstream_and_is_a_timeout_by_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LEAST_S", 0.5)
    assert statuses(DOUBLE, "def f(x):\n    while True: pass\n") == ["fail", "fail", "timeout", "timeout"]
    sleepy = "import time\ndef f(x):\n    time.sleep(0.05)\n    return 2 * x\n"
    assert alike(DOUBLE, sleepy) == "pass"


def test_loading_and_the_sum_of_calls_have_the_process_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "LEAST_S", 0.4)
    monkeypatch.setattr(execution, "GRACE_S", 0.2)
    assert alike(DOUBLE, "while True: pass\n") == "timeout"
    monkeypatch.setattr(execution, "LONGEST_S", 0.3)
    slow = "import time\ndef f(x):\n    time.sleep(0.35)\n    return 2 * x\n"
    assert statuses(DOUBLE, slow) == ["timeout"] * 4


def test_a_sleeper_is_held_by_the_whole_time_not_by_each_calls() -> None:
    many = task("def f(x):\n    return x\n", [[number] for number in range(400)])
    start = time.monotonic()
    monkey = "import time\ndef f(x):\n    time.sleep(3.0 if x == 7 else 0)\n    return x if x < 300 else 0\n"
    assert graded(many, monkey)["official"].detail["base_failure"] == {"test": 300, "why": "wrong result"}
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "solution",
    [
        "def f(x):\n    open('/tmp/x', 'w').close()\n    return 2 * x\n",
        "import os\ndef f(x):\n    os.getcwd()\n    return 2 * x\n",
        "import os\nHERE = os.getcwd()\ndef f(x):\n    return 2 * x\n",
        "import sys\nDATA = sys.stdin.read()\ndef f(x):\n    return 2 * x\n",
        "import subprocess\nclass P(subprocess.Popen): pass\ndef f(x):\n    return 2 * x\n",
        "import resource\ndef f(x):\n    return 2 * x\n",
        "import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as file:\n        file.write(b'x')\n    return 2 * x\n",
    ],
    ids=["open", "getcwd", "getcwd at import", "stdin", "Popen", "resource", "tempfile"],
)  # fmt: skip
def test_honest_code_that_upstream_fails_passes_by_right(solution: str) -> None:
    assert statuses(DOUBLE, solution) == ["fail", "fail", "pass", "pass"]


def test_printing_and_threads_and_leftovers_do_no_harm() -> None:
    assert alike(DOUBLE, "def f(x):\n    print('x' * 1000)\n    return 2 * x\n") == "pass"
    assert alike(DOUBLE, "import threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(9,)).start()\n    return 2 * x\n") == "pass"  # fmt: skip
    assert (
        alike(DOUBLE, "import atexit, time\natexit.register(time.sleep, 60)\ndef f(x):\n    return 2 * x\n") == "pass"
    )


def test_the_sets_have_a_process_each_and_within_one_state_is_kept() -> None:
    counting = "n = 0\ndef f(x):\n    global n\n    n += 1\n    return 2 * x if n <= 3 else None\n"
    assert alike(DOUBLE, counting) == "pass"
    mutating = task("def f(x):\n    return sum(x)\n", [[[1, 2]], [[3]]])
    assert alike(mutating, "def f(x):\n    total = sum(x)\n    x.clear()\n    return total\n") == "pass"


@pytest.mark.parametrize("inner", ["out", "[out]", "(out,)"])
def test_a_result_counts_as_it_was_when_it_was_returned(inner: str) -> None:
    listing = task(f"def f(x):\n    out = [x]\n    return {inner}\n", [[1], [2], [3]])
    shared = f"out = []\ndef f(x):\n    out.clear()\n    out.append(x)\n    return {inner}\n"
    assert alike(listing, shared) == "pass"
    growing = f"out = []\ndef f(x):\n    out.append(x)\n    return {inner}\n"
    assert graded(listing, growing)["official"].detail["base_failure"] == {"test": 1, "why": "wrong result"}
    assert graded(listing, growing)["strict"].detail["base_failure"] == {"test": 1, "why": "wrong result"}


CHEATS = {
    "an object that equals everything": "class A:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef f(x): return A()\n",
    "a float that equals everything": "class A(float):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
    "def f(x): return A(7)\n",
    "walks the frames": "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
    "        for name in ('expected', 'exp', 'gt_out', 'ref'):\n            if name in frame.f_locals: return frame.f_locals[name]\n"
    "        frame = frame.f_back\n",
    "searches memory": "import gc\ndef f(x):\n    for thing in gc.get_objects():\n        if isinstance(thing, list) and thing[:2] == [2, 4]:\n"
    "            return thing[0]\n",
    "replaces allclose": "import numpy\nnumpy.allclose = lambda *a, **k: True\ndef f(x): return 1e9\n",
    "replaces set": "import builtins\nbuiltins.set = lambda x: 0\ndef f(x): return 9\n",
    "replaces the encoder": "import json\njson.dumps = lambda *a, **k: '4'\ndef f(x): return 9\n",
}  # fmt: skip


@pytest.mark.parametrize("solution", CHEATS.values(), ids=CHEATS)
def test_a_cheat_fails_by_both_graders(solution: str) -> None:
    assert all(
        status != "pass"
        for status in statuses(task("def f(x):\n    return 2.0 * x\n", [[1], [2]], [[5]], atol=1e-4), solution)[::2]
    )


def test_any_iterable_does_where_sets_are_compared_and_any_match_where_a_result_is_asked_for() -> None:
    diff = task("def Diff(a, b):\n    return list(set(a) ^ set(b))\n", [[[1, 2], [2, 3]]], entry_point="Diff")
    assert alike(diff, "def Diff(a, b):\n    return (x for x in (3, 1, 1))\n") == "pass"
    assert alike(diff, "def Diff(a, b):\n    return map(int, '31')\n") == "pass"
    assert alike(diff, "def Diff(a, b):\n    return [1]\n") == "fail"
    assert alike(diff, "def Diff(a, b):\n    return None\n") == "fail"
    check = task(
        "import re\ndef check_str(s):\n    return re.match('[aeiou]', s)\n",
        [["annie"], ["dawood"]],
        entry_point="check_str",
    )
    assert alike(check, "import re\ndef check_str(s):\n    return re.search('^[aeiou]', s)\n") == "pass"
    assert alike(check, "def check_str(s):\n    return s[0] in 'aeiou'\n") == "pass"
    assert alike(check, "def check_str(s):\n    return 'Invalid'\n") == "fail"


def test_without_tests_a_solution_has_to_load_and_define_the_function() -> None:
    none = task("def f(x):\n    return x\n", [], [])
    assert alike(none, "def f(x):\n    return 9\n") == "pass"
    assert alike(none, "def g(x):\n    return 9\n") == "fail"
    assert alike(none, "1 / 0") == "fail"


def test_a_huge_result_is_compared_by_its_digest_and_never_sent() -> None:
    huge = task("def f(n):\n    return [(i, str(i)) for i in range(n)]\n", [[700_000]])
    (kept,) = references.of(huge)["base"]._rows
    assert kept.huge
    assert kept.size < 200
    assert (
        alike(
            huge, "def f(n):\n    out = []\n    for i in range(n):\n        out.append((i, f'{i}'))\n    return out\n"
        )
        == "pass"
    )
    assert alike(huge, "def f(n):\n    return [(i, str(i)) for i in range(n - 1)] + [(0, '0')]\n") == "fail"
    assert alike(huge, "def f(n):\n    return tuple((i, str(i)) for i in range(n))\n") == "fail"
    assert alike(huge, "def f(n):\n    return []\n") == "fail"


def test_a_long_result_is_kept_as_a_digest() -> None:
    long = task("def f(n):\n    return list(range(n))\n", [[20_000]])
    (kept,) = references.of(long)["base"]._rows
    assert (kept.body, kept.huge, kept.size > references.KEPT_BYTES) == (b"", False, True)
    assert alike(long, "def f(n):\n    return [i for i in range(n)]\n") == "pass"
    assert alike(long, "def f(n):\n    return [float(i) for i in range(n)]\n") == "pass"
    assert alike(long, "def f(n):\n    return list(range(n, 0, -1))\n") == "fail"


def test_references_are_kept_and_a_damaged_file_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from envs import data

    problem = task("def f(x):\n    return x + 1000\n", [[1]])
    first = references.of(problem)["base"]._rows
    path = data.home() / "references" / "evalplus" / f"{references._key(problem)}.json.zst"
    monkeypatch.setattr(references, "_memory", {})
    monkeypatch.setattr(references, "_computed", lambda problem, tests: pytest.fail("computed again"))
    assert references.of(problem)["base"]._rows == first
    monkeypatch.undo()
    path.write_bytes(path.read_bytes()[:-5])
    monkeypatch.setattr(references, "_memory", {})
    again = references.of(problem)["base"]._rows
    assert [row[:-1] for row in again] == [row[:-1] for row in first]


def test_a_reference_that_fails_is_our_fault_and_no_verdict() -> None:
    with pytest.raises(SandboxError, match=r"reference solution of Mbpp/90500 does not run on its own base test 1"):
        graded(task("def f(x):\n    return 1 // x\n", [[1], [0]]), "def f(x):\n    return 1\n")


def test_expected_values_are_not_sent_into_the_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = task("def f(x):\n    return str(x) + '-of-the-' + 'reference'\n", [["secret"]])
    graded(secret, "def f(x):\n    return 'wrong'\n")  # the reference has been run
    sent: list[bytes] = []
    send = Connection.send
    monkeypatch.setattr(
        Connection, "send", lambda self, data, deadline: sent.append(bytes(data)) or send(self, data, deadline)
    )
    assert alike(secret, "def f(x):\n    return 'wrong'\n") == "fail"
    assert b"secret" in b"".join(sent)
    assert b"of-the-" not in b"".join(sent)


def test_a_models_text_is_sanitised_and_strict_says_what_was_lost() -> None:
    problem = find("Mbpp/90001").problem
    right = problem.canonical_solution
    text = f"Sure, here it is:\n```python\n{right}\n```\nHope it helps."
    assert all(verdict.passed for verdict in grading.of_handed_in(problem, HandedIn(text, raw=True), "sample").values())
    helper = "def add(total, key, count):\n    total[key] = total.get(key, 0) + count\n\ndef merge_counts(one, other):\n    total = dict(one)\n"
    helper += "    for key, count in other.items():\n        add(total, key, count)\n    return total\n"
    found = grading.of_handed_in(problem, HandedIn(f"```python\n{helper}```", raw=True), "sample")
    assert not found["official"].passed
    assert found["strict"].passed
    assert found["strict"].detail["sanitize_loss"] is True
    assert all(
        verdict.passed for verdict in grading.of_handed_in(problem, HandedIn(helper, raw=False), "sample").values()
    )
    prose = grading.of_handed_in(problem, HandedIn("I can't.", raw=True), "sample")
    assert not any(verdict.passed for verdict in prose.values())


def test_verdicts_can_be_stored_and_are_the_same_each_time() -> None:
    solution = "def f(x):\n    raise KeyError(object())\n"
    texts = {json.dumps(graded(DOUBLE, solution)["strict"].model_dump(), sort_keys=True) for _ in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize(("solution", "expected"), [("2 * abs(x)", 1.0), ("2 * x", 1.0), ("x", 0.0)])
def test_the_base_score_is_a_metric_beside_the_score(solution: str, expected: float) -> None:
    from evaluators.behaviour import METRICS

    metric = next(metric for metric in METRICS if metric.name == "base_tests_passed")
    key = EpisodeKey(task=task_of(find("Mbpp/90000").problem, "sample"), env_version="1", env_settings={}, agent="a", agent_config={}, seed=0, attempt=0)  # fmt: skip
    verdicts = graded(DOUBLE, f"def f(x):\n    return {solution}\n")
    assert metric.measure(Trajectory(id="0", key=key, ended="terminated", verdicts=verdicts)) == expected
    assert metric.measure(Trajectory(id="0", key=key, ended="terminated")) is None
