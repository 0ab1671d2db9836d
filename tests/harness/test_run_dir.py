"""The folder of a run."""

import subprocess
import sys
from pathlib import Path

import pytest
import toybench

from envs.base import EnvSettings
from harness.run_dir import AgentPlan, BenchmarkPlan, Lock, Plan, RunDir, RunRecord, task_digest
from trajectories import durable
from trajectories.durable import write_file
from trajectories.failures import InputError

TASKS = [toybench.task_of(index) for index in range(3)]


def record(tasks: int = 3, attempts: int = 2) -> RunRecord:
    chosen = TASKS[:tasks]
    benchmark = BenchmarkPlan(
        name="toy", env_version="1", data="toy-1", split="test", settings=EnvSettings(), tasks=tasks,
        task_digest=task_digest(chosen),
    )  # fmt: skip
    agents = tuple(AgentPlan(spec=name, name=name, config={}) for name in ("a", "b"))
    return RunRecord(
        harness_version="0", command="eval", plan=Plan(benchmarks=(benchmark,), agents=agents, attempts=attempts)
    )


def test_a_run_is_read_back_as_it_was_planned(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", record(), {"toy": TASKS})
    again = RunDir.open(tmp_path / "run")
    assert again.record == run.record
    assert again.tasks(again.record.plan.benchmarks[0]) == TASKS


def test_planned_episodes_are_ordered_by_agent_attempt_and_task_and_have_ids_of_their_own(tmp_path: Path) -> None:
    planned = list(RunDir.create(tmp_path / "run", record(), {"toy": TASKS}).planned())
    order = [(each.agent.name, each.key.attempt, each.key.task.id) for each in planned]
    assert order == sorted(order)
    assert len({each.id for each in planned}) == len(planned) == record().plan.episodes() == 12


def test_a_plan_with_more_tasks_replaces_the_old_one_and_its_task_list(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", record(2), {"toy": TASKS[:2]})
    run.write(record(3), {"toy": TASKS})
    again = RunDir.open(tmp_path / "run")
    assert again.tasks(again.record.plan.benchmarks[0]) == TASKS
    assert len(list((tmp_path / "run/tasks").iterdir())) == 1


@pytest.mark.parametrize("left", ["run.json", "notes.txt"])
def test_a_folder_that_holds_something_is_refused(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_text("mine")
    with pytest.raises(InputError, match=r"already holds a run|not empty and holds no run"):
        RunDir.create(tmp_path, record(), {"toy": TASKS})
    assert (tmp_path / left).read_text() == "mine"


def test_a_folder_that_was_left_before_the_plan_was_written_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "lock").write_text("")
    (tmp_path / ".run.json.123.tmp").write_text("{")
    RunDir.create(tmp_path, record(), {"toy": TASKS})


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema_version": 2}', b"\xff\xfe"])
def test_a_damaged_record_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match="damaged or from another version"):
        RunDir.open(tmp_path)


def test_a_changed_or_missing_task_list_is_noticed(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", record(), {"toy": TASKS})
    (file,) = (run.path / "tasks").iterdir()
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(InputError, match="was changed"):
        list(run.planned())
    file.unlink()
    with pytest.raises(InputError, match="is missing"):
        list(run.planned())


def test_a_second_process_is_told_who_has_the_run(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.run_dir import Lock\n"
        "with Lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"in use by process {holder.pid} on "), Lock(tmp_path / "lock"):
            pass
        holder.kill()
    with Lock(tmp_path / "lock"):  # the lock ends with its process
        pass


def test_a_failing_write_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "sync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]
