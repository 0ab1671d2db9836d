"""`harness eval` and `collect` as a user sees them: plans, resuming, owed episodes, exit codes."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toybench import task_of
from toyrun import contents

from harness import identity
from harness.identity import harness_commit
from harness.run_dir import RunDir
from trajectories.schema import Task

Cli = Callable[..., Any]
TOY = ("eval", "-b", "toy")
ORACLE = (*TOY, "-a", "scripted:oracle")


def test_an_eval_prints_its_table_on_stdout_and_stores_every_episode(cli: Cli) -> None:
    ran = cli(*ORACLE, "-o", "run")
    assert ran.code == 0
    assert "scripted:oracle" in ran.out
    assert "100.00" in ran.out
    assert "Run: run" in ran.err
    assert len(contents(Path("run"))) == 8


def test_an_eval_ends_with_where_its_report_is_and_the_run_says_when_and_by_which_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _now()
    monkeypatch.setattr("harness.evaluate.harness_commit", lambda: "0123456789ab")
    ran = cli(*ORACLE, "-o", "my run")
    assert ran.err.splitlines()[-1] == "Report: my run/report.md"
    record = RunDir.open(Path("my run")).record
    assert record.commit == "0123456789ab"
    assert before <= record.started <= _now()
    monkeypatch.setattr("harness.evaluate.harness_commit", lambda: "another")
    assert cli(*ORACLE, "-o", "my run", "--resume", "-k", "2").code == 0
    resumed = RunDir.open(Path("my run")).record
    assert (resumed.started, resumed.commit, resumed.plan.attempts) == (record.started, record.commit, 2)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_a_commit_is_named_where_there_is_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "__file__", str(tmp_path / "harness" / "identity.py"))
    assert harness_commit() is None
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = harness_commit()
    assert commit
    assert re.fullmatch("[0-9a-f]{12}", commit)
    (tmp_path / "file").write_text("1")
    subprocess.run([*git, "add", "file"], check=True)
    assert harness_commit() == f"{commit}+"


def test_scores_of_several_agents_are_not_mixed_while_a_run_goes(cli: Cli) -> None:
    alone, several = cli(*ORACLE, "-o", "alone"), cli(*ORACLE, "-a", "scripted:nop", "-o", "several")
    assert "8/8 episodes, mean score 1.000, " in alone.err
    assert "16/16 episodes, " in several.err
    assert "score" not in several.err


def test_sample_tasks_that_need_pulled_data_are_left_out_and_said_to_be(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A headline that counts 0 for them would be 66.67 for an agent that plays all the others right."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    bfcl = ("eval", "-b", "bfcl-v3", "-a", "scripted:oracle", "--split", "sample")
    ran = cli(*bfcl, "-o", "run")
    multi = "multi_turn_base, multi_turn_miss_func, multi_turn_miss_param, multi_turn_long_context"
    assert f"Left out of bfcl-v3: {multi}. No simulators" in ran.out
    assert f"Left out of bfcl-v3: {multi}. No simulators" in ran.err
    assert f"Left out of bfcl-v3: {multi}. No simulators" in Path("run/report.md").read_text()
    assert "12 of 17 tasks were planned" in ran.out
    assert "100.00" in ran.out
    assert "66.67" not in ran.out + Path("run/report.md").read_text().split("## bfcl-v3")[0]
    plan = json.loads(Path("run/report.json").read_text())["plan"]["benchmarks"][0]
    assert (len(plan["left_out"]), plan["split_tasks"]) == (4, 12)
    other = cli(*bfcl, "--category", "simple", "-o", "other")
    assert "Left out" not in other.out + other.err


def test_a_model_too_slow_for_its_time_limit_scores_nothing_and_the_table_says_why(cli: Cli) -> None:
    flags = ("--split", "sample", "--category", "*irrelevance", "--time-limit", "0.3")
    ran = cli("eval", "-b", "bfcl-v3", "-a", "module:toyagents:Hanging", *flags, "-o", "run")
    assert re.search("bfcl-v3 +hanging +0.00", ran.out)
    assert "hanging on bfcl-v3: 2 of 2 episodes were truncated by time." in ran.out
    assert "| bfcl-v3 | hanging | no_response | 2 | 2 |" in Path("run/report.md").read_text()
    assert cli("rescore", "run").code == 0
    again = cli("report", "run", "--format", "json")
    assert json.loads(again.out)["runs"][0]["results"][0]["scores"]["graders"]["official"]["lead"]["value"] == 0


def test_a_collection_says_what_it_stored(cli: Cli) -> None:
    ran = cli("collect", "-b", "toy", "-a", "scripted:oracle", "-k", "2", "-o", "set")
    assert ran.code == 0
    assert "trajectories         16" in ran.out
    assert len(contents(Path("set"))) == 16


def test_json_is_all_that_stands_on_stdout(cli: Cli) -> None:
    ran = cli(*ORACLE, "-o", "run", "--json")
    said = json.loads(ran.out)
    assert (said["run"], said["planned"], said["stored"], said["owed"], said["interrupted"]) == ("run", 8, 8, 0, False)
    assert said["report"]["results"][0]["scores"]["agent"] == "scripted:oracle"


def test_a_dry_run_prints_the_plan_and_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    ran = cli(*ORACLE, "-a", "scripted:nop", "-k", "3", "-n", "2", "--seed", "5", "-c", "9", "--dry-run")
    plan = json.loads(ran.out)
    assert ran.code == 0
    assert plan["episodes"] == 2 * 3 * 2
    assert (plan["attempts"], plan["seed"], plan["benchmarks"][0]["tasks"]) == (3, 5, 2)
    assert [agent["name"] for agent in plan["agents"]] == ["scripted:oracle", "scripted:nop"]
    assert plan["operational"]["concurrency"] == 9
    assert list(tmp_path.iterdir()) == []


def test_filters_choose_tasks_first_by_id(cli: Cli) -> None:
    ran = cli(*ORACLE, "-o", "run", "--category", "od*", "--tasks", "toy_0000[1-7]", "-n", "3")
    assert ran.code == 0
    run = RunDir.open(Path("run"))
    assert [task.id for task in run.tasks(run.record.plan.benchmarks[0])] == ["toy_00001", "toy_00003", "toy_00005"]


def test_the_default_folder_names_time_benchmark_and_agent_and_is_new_each_time(cli: Cli) -> None:
    cli(*ORACLE)
    cli(*ORACLE)
    cli("collect", "-b", "toy", "-a", "scripted:oracle")
    assert len(list(Path("runs").glob("2*-toy-scripted_oracle*"))) == 2
    assert len(list(Path("datasets").glob("2*-toy-scripted_oracle*"))) == 1


def test_an_existing_run_is_refused_without_resume(cli: Cli) -> None:
    cli(*ORACLE, "-o", "run")
    refused = cli(*ORACLE, "-o", "run")
    assert refused.code == 2
    assert "already holds a run: go on with it by --resume" in refused.error()


def test_resume_plays_what_is_missing_and_nothing_twice(cli: Cli) -> None:
    cli(*ORACLE, "-o", "run", "-n", "3")
    before = {path: path.read_bytes() for path in Path("run/trajectories/segments").iterdir()}
    again = cli(*ORACLE, "-o", "run", "-n", "3", "--resume")
    assert again.code == 0
    assert {path: path.read_bytes() for path in Path("run/trajectories/segments").iterdir()} == before
    more = cli(*ORACLE, "-o", "run", "--resume", "-k", "2")
    assert more.code == 0
    assert len(contents(Path("run"))) == 16
    assert cli("list", "runs").code == 0


def test_resume_alone_goes_on_with_the_recorded_options_and_takes_others_on_top(cli: Cli) -> None:
    cli(*TOY, "-a", "module:toyagents:cold", "-o", "run", "-n", "3", "--seed", "4", "--time-limit", "50")
    assert cli("eval", "--resume", "-o", "run", "-k", "2").code == 0
    plan = RunDir.open(Path("run")).record.plan
    assert (plan.seed, plan.limits.time_s, plan.attempts, plan.episodes()) == (4, 50, 2, 6)
    assert len(contents(Path("run"))) == 6


def test_resume_starts_a_run_that_is_not_there_yet_and_says_so(cli: Cli) -> None:
    ran = cli(*ORACLE, "-o", "run", "--resume")
    assert ran.code == 0
    assert "There is no run in 'run' yet: starting it." in ran.err


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--seed", "1"), "seed was 0, now 1"),
        (("--grader", "strict"), "grader was 'official', now 'strict'"),
        (("--temperature", "0.5"), "sampling.temperature was None, now 0.5"),
        (("--max-steps", "5"), "toy.settings.max_steps was 0, now 5"),
        (("--mode", "prompt"), "toy.settings.mode was 'fc', now 'prompt'"),
        (("--token-limit", "9"), "limits.tokens was 0, now 9"),
        (("--split", "sample"), "toy.split was 'test', now 'sample'"),
        (("-n", "2"), "toy tasks: 6 of 8 are not chosen now, such as 'toy_00002'"),
    ],
)
def test_resume_refuses_other_settings_and_names_old_and_new(cli: Cli, flags: tuple[str, ...], sentence: str) -> None:
    cli(*ORACLE, "-o", "run")
    refused = cli(*ORACLE, "-o", "run", "--resume", *flags)
    assert refused.code == 2
    assert sentence in refused.error()


def test_resume_refuses_another_agent_or_another_configuration_of_it(cli: Cli) -> None:
    cli(*TOY, "-a", "module:toyagents:cold", "-o", "run")
    other = cli(*TOY, "-a", "module:toyagents:hot", "-o", "run", "--resume")
    assert "agent configured.temperature was 0.0, now 1.0" in other.error()
    assert "agent 'configured' is missing" in cli(*ORACLE, "-o", "run", "--resume").error()


def test_resume_refuses_fewer_attempts_and_changed_tasks(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli(*ORACLE, "-o", "run", "-k", "2")
    assert "attempts was 2, now 1" in cli(*ORACLE, "-o", "run", "--resume").error()
    monkeypatch.setattr("toybench.STEPS", 2)
    assert "8 of 8 have another content now" in cli(*ORACLE, "-o", "run", "-k", "2", "--resume").error()


def test_resume_takes_another_port_concurrency_or_retry_count(cli: Cli) -> None:
    cli(*ORACLE, "-o", "run", "--base-url", "http://127.0.0.1:1/v1")
    flags = ("--base-url", "http://127.0.0.1:2/v1", "-c", "1", "--retries", "0", "--request-timeout", "5")
    assert cli(*ORACLE, "-o", "run", "--resume", *flags).code == 0


def test_resume_finds_the_endpoint_again_and_nothing_secret_is_kept_or_said(cli: Cli) -> None:
    secret = "http://me:passw0rd@127.0.0.1:1/v1?key=passw0rd#passw0rd"
    ran = cli(*ORACLE, "-o", "run", "--base-url", secret)
    assert RunDir.open(Path("run")).record.options["base_url"] == "http://127.0.0.1:1/v1"
    for file in Path("run").rglob("*.*"):
        assert b"passw0rd" not in file.read_bytes()
    assert "passw0rd" not in ran.err + ran.out + cli(*ORACLE, "--base-url", secret, "--dry-run").out
    assert "--base-url http://127.0.0.1:1/v1" in cli("report", "run").out
    for flags in (("eval",), ORACLE):
        plan = json.loads(cli(*flags, "-o", "run", "--resume", "--dry-run").out)
        assert plan["operational"]["base_url"] == "http://127.0.0.1:1/v1"
    assert cli("eval", "-o", "run", "--resume", "--base-url", "http://127.0.0.1:2/v1").code == 0
    assert RunDir.open(Path("run")).record.options["base_url"] == "http://127.0.0.1:2/v1"


def test_the_command_that_goes_on_works_as_it_is_printed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FAULT", "OSError@toy_00003")
    flags = ("--base-url", "http://127.0.0.1:1/v1", "-c", "2", "--request-timeout", "7", "--retries", "0")
    broken = cli(*ORACLE, "-o", "a run", *flags)
    command = broken.err.splitlines()[-1].partition("are owed: '")[2].removesuffix("'.")
    assert command == (
        "harness eval --base-url http://127.0.0.1:1/v1 --request-timeout 7.0 --concurrency 2 --retries 0 --resume -o 'a run'"
    )
    monkeypatch.delenv("TOY_FAULT")
    assert cli(*shlex.split(command)[1:]).code == 0
    assert len(contents(Path("a run"))) == 8


ONE_CATEGORY = (
    "All 2 tasks of toy are of category 'even': -n takes the first by id; choose with --category or --tasks.\n"
)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("-n", "2"), True),
        (("-n", "1"), False),
        (("-n", "5"), False),
        (("-n", "2", "--category", "even"), False),
        (("-n", "2", "--tasks", "toy_*"), False),
    ],
)
def test_a_limit_that_leaves_one_category_of_several_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], said: bool
) -> None:
    def sorted_by_category(index: int) -> Task:
        return task_of(index).model_copy(update={"category": "even" if index < 4 else "odd"})

    monkeypatch.setattr("toybench.task_of", sorted_by_category)
    ran = cli(*ORACLE, "-o", "run", *flags)
    assert ran.code == 0
    assert (ONE_CATEGORY in ran.err) == said
    assert ("All " in ran.err) == said


def test_resume_takes_more_agents(cli: Cli) -> None:
    cli(*ORACLE, "-o", "run")
    assert cli(*ORACLE, "-a", "scripted:nop", "-o", "run", "--resume").code == 0
    assert len(contents(Path("run"))) == 16


@pytest.mark.parametrize(("kind", "boundary"), [("OSError", "environment"), ("SandboxError", "sandbox")])
def test_faults_of_ours_are_owed_exit_with_1_and_are_played_by_resume(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: str, boundary: str
) -> None:
    monkeypatch.setenv("TOY_FAULT", f"{kind}@toy_00003")
    broken = cli(*ORACLE, "-o", "run", "--retries", "0")
    assert broken.code == 1
    last = broken.err.splitlines()[-1]
    assert last.startswith("1 of 8 episodes broke outside the agent (the last: toy_00003 is broken on purpose)")
    assert "'harness eval --retries 0 --resume -o run'" in last
    said = json.loads(cli("eval", "--resume", "-o", "run", "--retries", "0", "--json").out)
    assert (said["stored"], said["owed"]) == (7, 1)
    assert said["report"]["results"][0]["scores"]["denominators"]["missing"] == 1
    with RunDir.open(Path("run")).store() as store:
        assert [summary.boundary for summary in store.summaries(done=False)] == [boundary]
    monkeypatch.delenv("TOY_FAULT")
    assert cli("eval", "--resume", "-o", "run").code == 0
    assert len(contents(Path("run"))) == 8
    with RunDir.open(Path("run")).store() as store:
        assert [summary.tries for summary in store.summaries(task_id="toy_00003")] == [3]


def test_an_agents_own_failures_score_zero_and_are_done(cli: Cli) -> None:
    ran = cli(*TOY, "-a", "module:toyagents:Broken", "-o", "run", "--json")
    said = json.loads(ran.out)
    assert (ran.code, said["owed"]) == (0, 0)
    assert said["report"]["results"][0]["scores"]["denominators"]["agent_failed"] == 8


def test_a_run_in_which_nothing_gets_through_stops_and_names_the_reason(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_TASKS", "500")
    ran = cli(*TOY, "-a", "module:toyagents:Offline", "-o", "run", "--retries", "0")
    assert ran.code == 1
    assert (
        "tries in a row broke outside the agent (The endpoint does not answer): mend that" in ran.err.splitlines()[-1]
    )
    assert len(contents(Path("run"))) < 50


def test_what_the_user_must_change_ends_the_run_with_2(cli: Cli) -> None:
    ran = cli(*TOY, "-a", "module:toyagents:Misused", "-o", "run")
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == "Error: The model has no template for tools: play it with --mode prompt."


def test_limits_truncate_and_name_themselves_in_the_store(cli: Cli) -> None:
    for flag, amount, name in (("--token-limit", "20", "tokens"), ("--cost-limit", "0.0015", "cost"), ("--max-steps", "1", "max_steps")):  # fmt: skip
        cli(*TOY, "-a", "module:toyagents:Adder", "-o", name, flag, amount)
        with RunDir.open(Path(name)).store() as store:
            assert {(summary.ended, summary.limit) for summary in store.summaries()} == {("truncated", name)}


def test_a_limit_that_an_agent_reports_nothing_for_is_said_not_to_hold(cli: Cli) -> None:
    ran = cli(*ORACLE, "-o", "run", "--token-limit", "5", "--cost-limit", "1")
    assert ran.err.count("scripted:oracle reports no tokens: --token-limit does not hold for it.") == 1


def test_the_time_limit_ends_episodes_of_an_agent_that_hangs(cli: Cli) -> None:
    ran = cli(*TOY, "-a", "module:toyagents:Hanging", "-o", "run", "--time-limit", "0.2", "-n", "4")
    assert ran.code == 0
    with RunDir.open(Path("run")).store() as store:
        assert {summary.limit for summary in store.summaries()} == {"time"}


def test_a_benchmark_that_cannot_run_here_is_an_error_when_it_was_asked_for_alone(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_UNAVAILABLE", "The toy box is empty: run 'harness data pull toy' once.")
    assert cli(*ORACLE).error() == "The toy box is empty: run 'harness data pull toy' once."
    sample = cli(*ORACLE, "--split", "sample")
    assert sample.code == 0
    assert "Not run: toy: The toy box is empty" in sample.err


def test_a_benchmark_that_cannot_run_beside_one_that_can_is_shown_as_not_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_UNAVAILABLE", "The toy box is empty: run 'harness data pull toy' once.")
    ran = cli(
        "eval", "-b", "bfcl-v3", "-b", "toy", "-a", "scripted:oracle", "--split", "sample", "-n", "3", "-o", "run"
    )
    assert ran.code == 0
    assert "Not run: toy: The toy box is empty" in ran.err
    assert [skipped.benchmark for skipped in RunDir.open(Path("run")).record.plan.not_run] == ["toy"]
    monkeypatch.delenv("TOY_UNAVAILABLE")
    assert cli("eval", "--resume", "-o", "run").code == 0  # it can run now: topped up
    assert len(contents(Path("run"))) == 6


def test_a_config_file_says_the_same_as_flags(cli: Cli) -> None:
    Path("run.toml").write_text('benchmark = "toy"\nagent = "scripted:oracle"\nlimit = 3\noutput = "from_file"\n')
    assert cli("eval", "--config", "run.toml").code == 0
    assert cli(*ORACLE, "-n", "3", "-o", "from_flags").code == 0
    assert contents(Path("from_file")) == contents(Path("from_flags"))


def test_concurrency_changes_nothing_but_the_speed(cli: Cli) -> None:
    for threads in ("1", "7"):
        assert cli(*TOY, "-a", "scripted:random", "-k", "4", "-c", threads, "-o", threads).code == 0
    assert contents(Path("1")) == contents(Path("7"))
    assert Path("1/report.json").read_bytes() == Path("7/report.json").read_bytes()
