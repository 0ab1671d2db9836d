"""The command line: what each command takes. Bodies live in their own modules and are imported when a command runs.

Nothing heavy may be imported here: `harness --help` answers in under 0.3 s (`tests/perf/test_cli_start.py`).
"""

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.exceptions import TyperException

from harness.console import say, terminal_width
from harness.sandbox import sandbox_app
from trajectories.failures import InfrastructureError, InputError

if TYPE_CHECKING:
    from trajectories.store import Filters

OK, FAULT, USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="harness",
    help="Run agents on benchmarks, keep every trajectory, and make a leaderboard that can be defended.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Fetch and check benchmark data.", no_args_is_help=True, rich_markup_mode=None)
trajectories_app = typer.Typer(
    help="Look into the stored trajectories of a run.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_app, name="data")
app.add_typer(trajectories_app, name="trajectories")
app.add_typer(sandbox_app, name="sandbox")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
RunPaths = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")]
FORMATS = ("text", "md", "csv", "json")
Format = Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="How it is printed (text).")]
Grader = Annotated[
    str | None, typer.Option(help="Which grader leads: official (as upstream) or strict (what is right).")
]

Benchmarks = Annotated[
    list[str] | None,
    typer.Option("--benchmark", "-b", metavar="BENCH", help="As in 'harness list benchmarks'. Repeatable."),
]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", "-a", metavar="AGENT", help="As in 'harness list agents'. Repeatable.")
]
Split = Annotated[str | None, typer.Option(help="Default: each benchmark's first; 'sample' needs no data.")]
Category = Annotated[list[str] | None, typer.Option(metavar="CATEGORY", help="Name or glob. Repeatable.")]
Language = Annotated[list[str] | None, typer.Option(metavar="en|zh", help="Repeatable.")]
Tasks = Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Over task ids. Repeatable.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", help="Tasks of each benchmark, first by id, in plain string order; 0: all."),
]
Attempts = Annotated[int | None, typer.Option("--attempts", "-k", help="How often each task is played (1).")]
Seed = Annotated[int | None, typer.Option(help="Every episode's and step's seed derives from it (0).")]
Mode = Annotated[str | None, typer.Option(metavar="prompt|fc", help="fc: native tools; prompt: tools as text (fc).")]
Profile = Annotated[
    str | None,
    typer.Option(help="A variant of the benchmark's episode rules (default); 'harness list benchmarks' has the names."),
]
Texts = Annotated[
    str | None,
    typer.Option(
        metavar="official|ours",
        help="Whose wording prompts have: upstream's, from the pulled data, or our own, which needs none (official).",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="OpenAI-compatible endpoint of 'openai:' agents, usually ending in /v1."),
]
Temperature = Annotated[float | None, typer.Option(help="Default: the model's own, as for the next two.")]
TopP = Annotated[float | None, typer.Option(help="Above 0, at most 1.")]
TopK = Annotated[int | None, typer.Option(help="Not known to OpenAI's own endpoint.")]
MaxTokens = Annotated[int | None, typer.Option(help="Of one answer.")]
MaxSteps = Annotated[int | None, typer.Option(help="Of one episode; 0: only the benchmark's own limits.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds of one episode; 0: none.")]
TokenLimit = Annotated[int | None, typer.Option(help="Tokens of one episode; 0: none.")]
CostLimit = Annotated[float | None, typer.Option(help="US dollars of one episode; 0: none.")]
RequestTimeout = Annotated[float | None, typer.Option(help="Seconds for one answer of an endpoint (600).")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", "-c", help="Episodes at once (4).")]
Retries = Annotated[int | None, typer.Option(help="New starts of an episode that the infrastructure broke (2).")]
Sandbox = Annotated[
    str | None, typer.Option(metavar="auto|docker|local", help="Where code that models write is run (auto).")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="RUN_DIR", help="Default: a new one in runs/ (collect: datasets/)."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Play what RUN_DIR still lacks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan, play nothing.")]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='TOML whose keys are the long flags, with - or _ and nothing around them (agent = ["openai:m"]); flags win.',
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(installed("lopd-harness"))
        raise typer.Exit


@app.command("collect", help="Play the same episodes and keep them as a dataset (default folder: datasets/).")
@app.command("eval", help="Play agents on benchmarks, grade, store and report.")
def play(
    context: typer.Context,
    benchmark: Benchmarks = None,
    agent: Agents = None,
    split: Split = None,
    category: Category = None,
    language: Language = None,
    tasks: Tasks = None,
    limit: Limit = None,
    attempts: Attempts = None,
    seed: Seed = None,
    mode: Mode = None,
    profile: Profile = None,
    texts: Texts = None,
    grader: Grader = None,
    base_url: BaseUrl = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    max_steps: MaxSteps = None,
    time_limit: TimeLimit = None,
    token_limit: TokenLimit = None,
    cost_limit: CostLimit = None,
    request_timeout: RequestTimeout = None,
    concurrency: Concurrency = None,
    retries: Retries = None,
    sandbox: Sandbox = None,
    output: Output = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    config: Config = None,
    quiet: Quiet = False,
    json: AsJson = False,
) -> None:
    given = dict(locals())
    from harness.evaluate import Command, evaluate

    command = Command("collect" if context.info_name == "collect" else "eval", resume, dry_run, json, quiet)
    apart = {"context", "resume", "dry_run", "json", "quiet", "config"}
    flags = {key: value for key, value in given.items() if key not in apart and value is not None}
    if output is not None:
        flags["output"] = str(output)
    raise typer.Exit(evaluate(command, config, flags))


@app.command("list")
def list_(
    what: Annotated[str | None, typer.Argument(metavar="[benchmarks|agents|tasks|metrics|runs]")] = None,
    benchmark: Annotated[
        str | None, typer.Argument(metavar="[BENCH]", help="Of 'list tasks': whose ids and categories.")
    ] = None,
    split: Split = None,
    category: Category = None,
    json: AsJson = False,
) -> None:
    """Show what there is by name; 'harness list tasks BENCH' shows the ids of a benchmark's tasks."""
    from harness.listing import show, show_tasks

    if what == "tasks":
        show_tasks(benchmark, split, category or [], as_json=json)
        return
    if benchmark or split or category:
        raise InputError("Only 'harness list tasks BENCH' takes a benchmark, --split and --category.")
    show(what, as_json=json)


@app.command("grade")
def grade(
    benchmark: Annotated[str, typer.Argument(metavar="BENCH")],
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="A file, or bfcl-v3: a folder of result files.")
    ],
    grader: Grader = "official",
    category: Annotated[str | None, typer.Option(help="Only the rows of this category.")] = None,
    language: Annotated[str | None, typer.Option(help="The language of the tasks that the file is about.")] = None,
    dots: Annotated[
        str | None,
        typer.Option(
            metavar="keep|underscore",
            help="bfcl-v3: whether the model was shown math.factorial (keep) or math_factorial (underscore). "
            "Default: as the file's own names say.",
        ),
    ] = None,
    sandbox: Sandbox = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Jails at once, where code is run (one a core).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="VERDICTS.jsonl", help="Default: stdout.")
    ] = None,
) -> None:
    """Grade finished outputs: one JSON row each, on stdout or in a file. No model, no network.

    Rows are JSON lines {"task_id": "simple_0", "output": "..."}, or the benchmark's official result or samples file as it is.
    A task id that is there again is a further attempt.
    """
    from harness.grade import grade, grade_to
    from harness.sandbox import choose_sandbox

    choose_sandbox(sandbox, concurrency)
    options = {name: value for name, value in (("category", category), ("language", language), ("dots", dots)) if value}
    leading = grader or "official"
    if output is None:
        graded = grade(benchmark, predictions, sys.stdout, grader=leading, options=options)
    else:
        graded = grade_to(output, benchmark, predictions, grader=leading, options=options)
    for sentence in graded.sentences():
        say(sentence)


@app.command("rescore")
def rescore(
    run: Annotated[Path, typer.Argument(metavar="RUN")],
    grader: Annotated[str | None, typer.Option(help="official or strict; default: both.")] = None,
    sandbox: Sandbox = None,
) -> None:
    """Grade a run's stored trajectories again, by today's code and data."""
    from harness.grade import rescore
    from harness.report import write_report
    from harness.run_dir import RunDir
    from harness.sandbox import choose_sandbox

    choose_sandbox(sandbox)
    rescored = rescore(run, grader)
    write_report(RunDir.open(run))
    for sentence in rescored.sentences():
        say(sentence)


@app.command("report")
def report(
    runs: RunPaths,
    form: Format = "text",
    json: AsJson = False,
) -> None:
    """Show the scores, behaviour and failures of runs."""
    from harness.report import report

    _write(report(runs, "json" if json else _form(form), width=terminal_width(sys.stdout)))


@app.command("leaderboard")
def leaderboard(
    runs: RunPaths,
    form: Format = "text",
    allow_mixed: Annotated[bool, typer.Option(help="Rank runs whose tasks, data or grader differ.")] = False,
    json: AsJson = False,
) -> None:
    """Rank the agents of runs."""
    from harness.report import leaderboard

    _write(
        leaderboard(runs, "json" if json else _form(form), allow_mixed=allow_mixed, width=terminal_width(sys.stdout))
    )


def _form(name: str) -> Any:
    if name not in FORMATS:
        from envs.base import unknown_name

        raise unknown_name("format", name, FORMATS)
    return name


def _write(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


@data_app.command("list")
def data_list(json: AsJson = False) -> None:
    """Show which data there is and what is installed."""
    from harness.listing import show_data

    show_data(as_json=json)


@data_app.command("pull")
def data_pull(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    source: Annotated[Path | None, typer.Option("--from", metavar="PATH", help="A local file or folder.")] = None,
    release: Annotated[str | None, typer.Option(help="livecodebench: v1 to v6, or a range such as v4_v5.")] = None,
    split: Annotated[str | None, typer.Option(help="code-tasks: the name of the split that the file becomes.")] = None,
    json: AsJson = False,
) -> None:
    """Install the pinned data of a benchmark, or a local copy of it."""
    from harness.listing import pull

    options = {option: value for option, value in (("release", release), ("split", split)) if value}
    pull(name, source, options, as_json=json)


@data_app.command("verify")
def data_verify(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Default: all that is installed.")] = None,
    json: AsJson = False,
) -> None:
    """Check the installed data against its digests."""
    from harness.listing import verify

    raise typer.Exit(verify(name, as_json=json))


@trajectories_app.command("ls")
def trajectories_ls(
    run: RunPath,
    benchmark: Benchmarks = None,
    agent: Agents = None,
    category: Annotated[list[str] | None, typer.Option(help="Repeatable.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Task id. Repeatable.")] = None,
    ended: Annotated[
        list[str] | None, typer.Option(metavar="terminated|truncated|failed", help="How it ended. Repeatable.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--truncated-by", "--limit", help="Name of the limit, such as max_steps. Repeatable."),
    ] = None,
    boundary: Annotated[
        list[str] | None,
        typer.Option(metavar="agent|environment|sandbox|infrastructure", help="Where it failed. Repeatable."),
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Of the official grader.")] = None,
    max_score: Annotated[float | None, typer.Option(help="Of the official grader.")] = None,
    head: Annotated[int | None, typer.Option("-n", min=0, help="At most so many; 0: all.")] = None,
    json: AsJson = False,
) -> None:
    """List stored trajectories."""
    from harness.show import ls

    given = {"benchmark": benchmark, "agent": agent, "category": category, "task_id": task, "ended": ended}
    given |= {"limit": limit, "boundary": boundary, "min_score": min_score, "max_score": max_score}
    filters = cast("Filters", {name: value for name, value in given.items() if value is not None})
    raise typer.Exit(ls(run, json=json, head=head, **filters))


@trajectories_app.command("show")
def trajectories_show(
    run: RunPath,
    trajectory: Annotated[str, typer.Argument(metavar="ID", help="Trajectory id, the start of one, or a task id.")],
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Whose, of a task that several played.")] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", "-k", min=0, help="Which, of a task that was played more than once (0).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show one trajectory as a transcript."""
    from harness.show import show

    given = {"agent": agent, "attempt": attempt}
    choice = cast("Filters", {name: value for name, value in given.items() if value is not None})
    raise typer.Exit(show(run, trajectory, json=json, **choice))


@trajectories_app.command("stats")
def trajectories_stats(run: RunPath, json: AsJson = False) -> None:
    """Count what a run stored."""
    from harness.show import stats

    raise typer.Exit(stats(run, json=json))


@trajectories_app.command("verify")
def trajectories_verify(run: RunPath, json: AsJson = False) -> None:
    """Read and check everything; exit code 1 if something is damaged."""
    from harness.show import verify

    raise typer.Exit(verify(run, json=json))


@trajectories_app.command("compact")
def trajectories_compact(
    run: RunPath,
    drop_damaged: Annotated[bool, typer.Option(help="Leave out what can't be read: it is owed again.")] = False,
    json: AsJson = False,
) -> None:
    """Merge segments and leave out superseded records."""
    from harness.run_dir import changing
    from harness.show import compact

    with changing(run):
        raise typer.Exit(compact(run, drop_damaged=drop_damaged, json=json))


@app.command("doctor")
def doctor(json: AsJson = False) -> None:
    """Say what this machine has and what it lacks."""
    from harness.doctor import report

    raise typer.Exit(report(as_json=json))


def main() -> None:
    """Entry point of the command `harness`: runs it and exits with the code of design 10."""
    sys.excepthook = _unexpected
    threading.excepthook = _unexpected_in_thread
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code. Whatever breaks ends in one sentence on stderr."""
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
        return int(code or OK)
    except TyperException as error:
        return _usage(error)
    except InputError as error:
        say(f"Error: {' '.join(str(error).split())}")
        return USAGE
    except InfrastructureError as error:
        say(f"Error: {' '.join(str(error).split())}")
        return FAULT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer makes that of it
            return _reader_left()
        say("Error: code that was loaded (an agent's module?) called sys.exit: it may not.")
        return USAGE


def _reader_left() -> int:
    """Whoever read our output has left: the flush at exit must not complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _usage(error: TyperException) -> int:
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        say(message)
        return USAGE
    path = getattr(getattr(error, "ctx", None), "command_path", "harness")
    say(f"Error: {' '.join(message.split()).rstrip('.')}: '{path} --help' shows what there is.")
    return error.exit_code


def _unexpected(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """The last resort (`sys.excepthook`): one sentence, and the traceback in a file, or here with HARNESS_DEBUG=1."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    if os.environ.get("HARNESS_DEBUG"):
        say(text)
    with tempfile.NamedTemporaryFile("w", prefix="harness-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(text)
    say(f"Error: this is a fault of ours ({kind.__name__}: {error}); please report it with {file.name}.")


def _unexpected_in_thread(about: threading.ExceptHookArgs) -> None:
    # What ends a worker is raised again in the main thread: reported once is enough.
    if about.thread is None or not about.thread.name.startswith("worker-"):
        threading.__excepthook__(about)


if __name__ == "__main__":
    main()
