"""`harness sandbox build|check|bench|clean`: commands and bodies. Nothing heavy is imported before one runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.console import out, out_json, say
from trajectories.failures import InputError

if TYPE_CHECKING:
    from envs.sandbox.pool import Pool

sandbox_app = typer.Typer(help="Jails for untrusted code.", no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
KindOption = Annotated[str, typer.Option("--sandbox", metavar="auto|docker|local", help="Which kind (auto).")]
Runtime = Annotated[
    str | None, typer.Option(metavar="NAME", help="The engine's runtime for containers, such as runsc.")
]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Run code WITHOUT a jail.")]


def choose_sandbox(kind: str | None, workers: int | None = None) -> None:
    """The sandbox that this command judges code in, if it has to: started when code is first run."""
    from envs import judging

    judging.use_sandbox(kind or "auto", workers, run_id=str(os.getpid()))


def described(kind: str) -> str:
    """Which sandbox it is, in one line; for `auto` also why."""
    from envs.sandbox.pool import explain_choice

    return explain_choice() if kind == "auto" else f"Sandbox: {kind}."


@sandbox_app.command("build")
def build(
    base: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Any image with Python >= 3.11 (python:3.12-slim).")
    ] = None,
    network: Annotated[str | None, typer.Option(metavar="NAME", help="The engine's network while building.")] = None,
) -> None:
    """Build the image of docker sandboxes."""
    from envs.sandbox import docker

    out(docker.build(base or docker.BASE, network=network))


@sandbox_app.command("check")
def check(sandbox: KindOption = "auto", runtime: Runtime = None, unsafe: Unsafe = False, json: AsJson = False) -> None:
    """Try to break each promise on this machine. Exit code 1 if one is broken."""
    from envs.sandbox.promises import findings

    with _pool(sandbox, 1, runtime=runtime, unsafe=unsafe) as pool:
        found = []
        for finding in findings(pool):
            found.append(finding)
            if not json:
                out(f"{'holds ' if finding.held else 'BROKEN'}  {finding.promise:<58}  {finding.saw}")
    if json:
        out_json({"sandbox": pool.id, "findings": [finding._asdict() for finding in found]})
    raise typer.Exit(int(not all(finding.held for finding in found)))


@sandbox_app.command("bench")
def bench(
    sandbox: KindOption = "auto",
    workers: Annotated[int, typer.Option(help="Jails at once.")] = 2,
    solutions: Annotated[int, typer.Option(help="How many, of a hundred calls each.")] = 300,
    runtime: Runtime = None,
    json: AsJson = False,
) -> None:
    """Measure solutions a second, CPU per solution, and the wait for one tool call."""
    from envs.sandbox.bench import cost, sample_job, waits

    with _pool(sandbox, workers, runtime=runtime) as pool:
        found, wait = cost(pool, workers, [sample_job()] * solutions), waits(pool)
    record: dict[str, Any] = {"sandbox": pool.id, "workers": workers, **found._asdict(), **wait._asdict()}
    record |= {"per_second": found.per_second, "cpu_ms": found.cpu_ms}
    if json:
        out_json(record)
        return
    out(
        f"{pool.id}, {workers} workers, {found.solutions} solutions of 100 calls: {found.per_second:.1f} a second, {found.wrong} wrong"
    )
    out(
        f"CPU per solution: {found.cpu_ms:.2f} ms (host {found.host_ms:.2f}, jail {found.jail_ms:.2f}, engine {found.engine_ms:.2f})"
    )
    out(f"run_code on a warm pool: p50 {wait.p50_ms:.1f} ms, p99 {wait.p99_ms:.1f} ms of {wait.calls}")


@sandbox_app.command("clean")
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Those of living runs too, and images of other versions.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Remove what killed runs left: containers; local jails end by themselves with their owner."""
    from envs.sandbox import docker, local

    removed = docker.reap(everything=everything)
    images = docker.remove_old_images() if everything else []
    folders = [str(path) for path in local.reap_unsafe()]
    if json:
        out_json({"containers": removed, "images": images, "folders": folders})
        return
    for kind, names in (("containers", removed), ("images", images), ("folders", folders)):
        out(f"{len(names)} {kind} removed" + (f": {', '.join(names)}" if names else "."))


def _pool(kind: str, workers: int, *, runtime: str | None = None, unsafe: bool = False) -> "Pool":
    from envs.sandbox.pool import explain_choice, open_pool

    if kind not in ("auto", "docker", "local"):
        raise InputError(f"There is no sandbox {kind!r}: auto, docker or local.")
    if kind == "auto" and not unsafe:
        say(explain_choice())
    return open_pool(kind, workers, Path.cwd().name, runtime=runtime, unsafe=unsafe)


if __name__ == "__main__":
    sandbox_app()
