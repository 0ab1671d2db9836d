"""From options to a plan: which tasks of which benchmarks, played how, by whom; and whether a run may go on with it."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import ValidationError

from agents.base import Agent, AgentOptions, Closing, Sampling
from agents.registry import build
from envs.base import Benchmark, EnvSettings, unknown_name
from envs.registry import load
from harness.config import EvalOptions
from harness.limits import Limits
from harness.run_dir import AgentPlan, BenchmarkPlan, NotRun, Plan, RunDir, task_digest
from trajectories.failures import InputError
from trajectories.schema import Task


class Resolved(NamedTuple):
    """A plan and what it takes to play it."""

    plan: Plan
    tasks: dict[str, list[Task]]
    """The chosen tasks of each benchmark, by id."""
    benchmarks: dict[str, Benchmark]
    agents: dict[str, Agent]

    def close(self) -> None:
        """Release what the agents hold."""
        for agent in self.agents.values():
            if isinstance(agent, Closing):
                agent.close()


def resolve(options: EvalOptions) -> Resolved:
    """Build everything that the options name. InputError for a name that isn't there, or if nothing is left to play."""
    if not options.benchmark or not options.agent:
        missing = "--benchmark (-b)" if not options.benchmark else "--agent (-a)"
        raise InputError(f"{missing} is missing: 'harness list' shows the names.")
    _refuse_repeats("benchmark", options.benchmark)
    benchmarks = {name: load(name) for name in options.benchmark}
    not_run = tuple(_unavailable(benchmarks, options))
    for skipped in not_run:
        del benchmarks[skipped.benchmark]
    tasks = {name: choose(benchmark, options) for name, benchmark in benchmarks.items()}
    plans = tuple(_plan_benchmark(benchmark, tasks[name], options) for name, benchmark in benchmarks.items())
    agents = build_agents(options)
    plan = Plan(
        benchmarks=plans,
        agents=tuple(_plan_agent(spec, agent) for spec, agent in zip(options.agent, agents.values(), strict=True)),
        attempts=options.attempts,
        seed=options.seed,
        grader=options.grader,
        sampling=_sampling(options),
        limits=Limits(time_s=options.time_limit, tokens=options.token_limit, cost_usd=options.cost_limit),
        not_run=not_run,
    )
    return Resolved(plan, tasks, benchmarks, agents)


def build_agents(options: EvalOptions) -> dict[str, Agent]:
    """The agents by their names, in the order given."""
    _refuse_repeats("agent", options.agent)
    agent_options = AgentOptions(
        mode=options.mode,
        sampling=_sampling(options),
        base_url=options.base_url,
        request_timeout_s=options.request_timeout,
        concurrency=options.concurrency,
    )
    built = [build(spec, agent_options) for spec in options.agent]
    _refuse_repeats("agent", [agent.name for agent in built])
    return {agent.name: agent for agent in built}


def choose(benchmark: Benchmark, options: EvalOptions) -> list[Task]:
    """The tasks that pass all filters, by id; InputError for a filter that nothing passes."""
    split = split_of(benchmark, options)
    categories = _expand("category", options.category, benchmark.categories)
    for language in options.language:
        if language not in benchmark.languages:
            raise unknown_name(f"language of {benchmark.name}:", language, benchmark.languages)
    every = benchmark.tasks(split)
    found = [
        task
        for task in every
        if (not categories or task.category in categories)
        and (not options.language or task.language in options.language)
    ]
    for glob in options.tasks:
        if not any(fnmatchcase(task.id, glob) for task in every):
            raise _no_task(benchmark, glob, [task.id for task in every])
    if options.tasks:
        found = [task for task in found if any(fnmatchcase(task.id, glob) for glob in options.tasks)]
    if not found:
        raise InputError(
            f"No task of {benchmark.name}, split {split!r}, passes all filters together: leave out one of "
            "--category, --language and --tasks."
        )
    found.sort(key=lambda task: task.id)
    return found[: options.limit or None]


def of_one_category(resolved: Resolved) -> Iterator[str]:
    """A sentence for each benchmark of which a limit alone, and nobody's wish, leaves one of several categories."""
    for plan in resolved.plan.benchmarks:
        chosen = resolved.tasks[plan.name]
        found = {task.category for task in chosen}
        if plan.limit < 2 or plan.categories or plan.globs or len(found) > 1:
            continue
        if len({task.category for task in resolved.benchmarks[plan.name].tasks(plan.split)}) > 1:
            yield (
                f"All {len(chosen)} tasks of {plan.name} are of category {chosen[0].category!r}: -n takes the first by id; "
                "choose with --category or --tasks."
            )


def split_of(benchmark: Benchmark, options: EvalOptions) -> str:
    split = options.split or benchmark.splits[0]
    if split not in benchmark.splits:
        raise unknown_name(f"split of {benchmark.name}:", split, benchmark.splits)
    return split


def _unavailable(benchmarks: Mapping[str, Benchmark], options: EvalOptions) -> Iterator[NotRun]:
    """Benchmarks that this machine can't run. Only where others may still run, or samples were asked for, is that no error."""
    for name, benchmark in benchmarks.items():
        reason = benchmark.unavailable(split_of(benchmark, options))
        if reason is None:
            continue
        if len(benchmarks) == 1 and options.split != "sample":
            raise InputError(reason)
        yield NotRun(benchmark=name, reason=reason)


def _plan_benchmark(benchmark: Benchmark, tasks: Sequence[Task], options: EvalOptions) -> BenchmarkPlan:
    if options.profile not in benchmark.profiles:
        raise unknown_name(f"profile of {benchmark.name}:", options.profile, benchmark.profiles)
    split = split_of(benchmark, options)
    settings = EnvSettings(mode=options.mode, profile=options.profile, texts=options.texts, max_steps=options.max_steps)
    return BenchmarkPlan(
        name=benchmark.name,
        env_version=benchmark.env_version,
        data=benchmark.data_version(split),
        split=split,
        settings=benchmark.resolve(settings, split),
        categories=options.category,
        languages=options.language,
        globs=options.tasks,
        limit=options.limit,
        tasks=len(tasks),
        task_digest=task_digest(tasks),
        split_tasks=len(benchmark.tasks(split)),
        left_out=tuple(_left_out(benchmark, split, options)),
    )


def _left_out(benchmark: Benchmark, split: str, options: EvalOptions) -> Iterator[str]:
    """What the split lacks here, but for sentences that speak of categories which were not asked for."""
    chosen = _expand("category", options.category, benchmark.categories) or set(benchmark.categories)
    for sentence in benchmark.missing(split):
        named = {category for category in benchmark.categories if re.search(rf"\b{re.escape(category)}\b", sentence)}
        if not named or named & chosen:
            yield sentence


def _plan_agent(spec: str, agent: Agent) -> AgentPlan:
    try:
        return AgentPlan(spec=spec, name=agent.name, config=dict(agent.config))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InputError(
            f"Agent {spec!r} has a {where} that can't be stored ({fault['msg']}): name must be text, config JSON values."
        ) from None


def _sampling(options: EvalOptions) -> Sampling:
    return Sampling(
        temperature=options.temperature, top_p=options.top_p, top_k=options.top_k, max_tokens=options.max_tokens
    )


def _expand(kind: str, wanted: Sequence[str], known: Sequence[str]) -> set[str]:
    chosen: set[str] = set()
    for name in wanted:
        matching = [candidate for candidate in known if fnmatchcase(candidate, name)]
        if not matching:
            raise unknown_name(kind, name, known)
        chosen.update(matching)
    return chosen


def _no_task(benchmark: Benchmark, glob: str, ids: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(glob.strip("*"), ids, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else f" An id looks like {ids[0]!r}."
    return InputError(f"No task of {benchmark.name} matches {glob!r}.{hint}")


def _refuse_repeats(kind: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"The {kind} {name!r} is named twice: one of them is enough, --attempts plays more often.")


def check_resumable(run: RunDir, resolved: Resolved) -> None:
    """InputError that names what differs, unless the new plan holds the whole old one. More is no difference."""
    differing = [*_differing(run, resolved)]
    if differing:
        shown = "; ".join(differing[:5]) + (f"; and {len(differing) - 5} more" if len(differing) > 5 else "")
        raise InputError(
            f"The run in {str(run.path)!r} was started otherwise: {shown}. Give the old values, or another folder by -o."
        )


def _differing(run: RunDir, resolved: Resolved) -> Iterator[str]:
    old, new = run.record.plan, resolved.plan
    if new.attempts < old.attempts:
        yield f"attempts was {old.attempts}, now {new.attempts}"
    alone = {"attempts", "benchmarks", "agents", "not_run"}
    yield from differences(old.model_dump(mode="json", exclude=alone), new.model_dump(mode="json", exclude=alone))
    new_agents = {agent.name: agent for agent in new.agents}
    for agent in old.agents:
        if agent.name not in new_agents:
            yield f"agent {agent.name!r} is missing"
        else:
            yield from differences(agent.config, new_agents[agent.name].config, f"agent {agent.name}")
    new_benchmarks = {benchmark.name: benchmark for benchmark in new.benchmarks}
    for benchmark in old.benchmarks:
        if benchmark.name not in new_benchmarks:
            yield f"benchmark {benchmark.name!r} is missing"
        else:
            yield from _benchmark_differing(run, benchmark, new_benchmarks[benchmark.name], resolved)


def _benchmark_differing(run: RunDir, old: BenchmarkPlan, new: BenchmarkPlan, resolved: Resolved) -> Iterator[str]:
    same = {"env_version", "data", "split", "settings"}
    yield from differences(
        old.model_dump(mode="json", include=same), new.model_dump(mode="json", include=same), old.name
    )
    if old.task_digest == new.task_digest:
        return
    now = {task.id: task for task in resolved.tasks[old.name]}
    before = run.tasks(old)
    gone = [task.id for task in before if task.id not in now]
    changed = [task.id for task in before if task.id in now and now[task.id] != task]
    if gone:
        yield f"{old.name} tasks: {len(gone)} of {old.tasks} are not chosen now, such as {gone[0]!r}"
    if changed:
        yield f"{old.name} tasks: {len(changed)} of {old.tasks} have another content now, such as {changed[0]!r}"


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two JSON values differ, each as `path was old, now new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}" if path else str(name))
    elif old != new:
        yield f"{path} was {old!r}, now {new!r}"
