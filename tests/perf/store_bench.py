"""What the store costs: `python tests/perf/store_bench.py [--episodes 20000] [--run RUN_DIR] [--json]`.

Appends the episodes one after another, from one thread, each on the disk before the next, and then reads them in each way. With
`--run` the episodes are copies of that run's (with ids of their own), else of self-written ones with four steps, eight tools and,
in every fourth, token ids. The same bytes as plain JSON lines with an fsync each stand beside it. Times are CPU seconds
unless they say wall; figures of one run compare with each other only.
"""

import argparse
import itertools
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from harness.run_dir import RunDir
from trajectories.schema import (
    Action,
    CallRecord,
    EpisodeKey,
    Message,
    Step,
    StepTiming,
    Task,
    Timing,
    TokenTrace,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    Verdict,
)
from trajectories.store import Store

WORDS = [
    "open",
    "close",
    "file",
    "folder",
    "ticket",
    "price",
    "stock",
    "order",
    "user",
    "account",
    "list",
    "sort",
    "find",
    "move",
    "copy",
    "send",
    "message",
    "flight",
]


def written_episodes(count: int) -> list[Trajectory]:
    """Self-written episodes over fifty tool sets: sentences of few words, not random bytes."""
    rng = random.Random(1)
    tool_sets = [tuple(_tool(rng, at) for at in range(8)) for _ in range(50)]
    return [_episode(rng, number, tool_sets[number % 50]) for number in range(count)]


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


def _tool(rng: random.Random, at: int) -> ToolSpec:
    names = rng.sample(WORDS, 3)
    properties = {name: {"type": "string", "description": _sentence(rng, 8)} for name in names}
    return ToolSpec(
        name=f"{names[0]}_{names[1]}_{at}",
        description=_sentence(rng, 20),
        parameters={"type": "object", "properties": properties, "required": names[:1]},
    )


def _episode(rng: random.Random, number: int, tools: tuple[ToolSpec, ...]) -> Trajectory:
    prompt = tuple(rng.randrange(150_000) for _ in range(600)) if number % 4 == 0 else ()
    steps: list[Step] = []
    for at in range(4):
        tokens = None
        if prompt:
            completion = tuple(rng.randrange(150_000) for _ in range(40))
            logprobs = tuple(float(f"{-rng.random():.4f}") for _ in completion)
            tokens = TokenTrace(prompt_ids=prompt, completion_ids=completion, logprobs=logprobs)
            prompt = (*prompt, *completion, *(rng.randrange(150_000) for _ in range(50)))
        steps.append(_step(rng, at, tools, tokens))
    key = EpisodeKey(
        task=Task(
            benchmark="bench", id=f"task_{number}", category=f"c{number % 17}", split="test", cluster="c", digest="d"
        ),
        env_version="1",
        env_settings={"mode": "fc"},
        agent=f"agent_{number % 3}",
        agent_config={"model": "m", "temperature": 0.7},
        seed=number,
        attempt=0,
    )
    score = float(rng.random() < 0.4)
    return Trajectory(
        id="",
        key=key,
        opening=(Message(role="system", content=_sentence(rng, 60)), Message(role="user", content=_sentence(rng, 25))),
        tools=tools,
        steps=tuple(steps),
        ended="terminated",
        reward=score,
        verdicts={
            name: Verdict(grader=f"{name}@1", passed=score == 1.0, score=score) for name in ("official", "strict")
        },
        usage=Usage(prompt_tokens=2400, completion_tokens=160),
        timing=Timing(started_at=1.8e9 + number, wall_s=round(rng.random(), 6), agent_s=0.5, env_s=0.01),
    )


def _step(rng: random.Random, at: int, tools: tuple[ToolSpec, ...], tokens: TokenTrace | None) -> Step:
    tool = rng.choice(tools)
    call = ToolCall(id=f"call_{at}", name=tool.name, arguments={"path": _sentence(rng, 3), "depth": rng.randrange(9)})
    result = json.dumps({"result": _sentence(rng, 20)})
    return Step(
        action=Action(content=_sentence(rng, 12), tool_calls=(call,), tokens=tokens),
        observation=(Message(role="tool", content=result, tool_call_id=call.id, name=call.name),),
        calls=(CallRecord(name=call.name, arguments=call.arguments, result=result),),
        timing=StepTiming(agent_s=round(rng.random(), 6), env_s=round(rng.random() / 100, 6)),
    )


def copies(sources: list[Trajectory], count: int) -> Iterator[Trajectory]:
    """`count` episodes with ids of their own; further rounds over the sources are further attempts."""
    for number, source in enumerate(itertools.islice(itertools.cycle(sources), count)):
        key = source.key.model_copy(update={"attempt": number // len(sources), "seed": number})
        yield source.model_copy(update={"key": key, "id": key.trajectory_id()})


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def cpu_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def measure(sources: list[Trajectory], count: int, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {"episodes": count}
    store = Store.create(folder / "store")
    ids, steps = _append(store, sources, count, figures)
    figures["close_cpu_s"] = round(cpu_of(store.close)[0], 2)
    _append_in_threads(sources, folder, figures)
    json_bytes = sum(len(trajectory.to_json().encode()) + 1 for trajectory in copies(sources, count))
    with Store.open(folder / "store") as reader:
        size = reader.size_bytes()
        figures["bytes_per_step"] = round(size / steps, 1)
        figures["times_smaller_than_json"] = round(json_bytes / size, 1)
        _read(reader, ids, figures)
    figures["open_s"] = round(cpu_of(lambda: Store.open(folder / "store").close())[0], 4)
    figures["peak_rss_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return figures


def _append(store: Store, sources: list[Trajectory], count: int, figures: dict[str, Any]) -> tuple[list[str], int]:
    """Appends all; of the first thousand, each also goes to a plain file, so that both meet the same disk."""
    ids, steps, rss, cpu = list[str](), 0, list[float](), 0.0
    beside, wall, plain_wall = min(count, 1000), 0.0, 0.0
    with tempfile.TemporaryFile(dir=store.path.parent) as file:
        for number, trajectory in enumerate(copies(sources, count)):
            before, clock = time.process_time(), time.perf_counter()
            store.append(trajectory)
            cpu += time.process_time() - before
            wall += (time.perf_counter() - clock) * (number < beside)
            plain_wall += _append_line(file, trajectory) if number < beside else 0.0
            ids.append(trajectory.id)
            steps += len(trajectory.steps)
            if (number + 1) % max(1, count // 8) == 0:
                rss.append(round(rss_mib(), 1))
    figures["appends_per_s_wall"] = round(beside / wall)
    figures["jsonl_appends_per_s_wall"] = round(beside / plain_wall)
    figures["append_cpu_us_with_sealing"] = round(cpu / count * 1e6)
    figures["rss_mib_at_eighths"] = rss
    return ids, steps


def _append_line(file: IO[bytes], trajectory: Trajectory) -> float:
    clock = time.perf_counter()
    file.write(trajectory.to_json().encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return time.perf_counter() - clock


def _append_in_threads(sources: list[Trajectory], folder: Path, figures: dict[str, Any]) -> None:
    """Eight threads that append at once, as the runner does, share fsyncs."""
    count = 2000
    episodes = list(copies(sources, count))
    with Store.create(folder / "threads") as store, ThreadPoolExecutor(8) as threads:
        clock = time.perf_counter()
        list(threads.map(store.append, episodes))
        figures["appends_per_s_wall_8_threads"] = round(count / (time.perf_counter() - clock))


def _read(reader: Store, ids: list[str], figures: dict[str, Any]) -> None:
    some = random.Random(2).sample(ids, min(200, len(ids)))
    figures["filter_scan_ms"] = round(
        cpu_of(lambda: list(reader.summaries(min_score=1.0, agent="agent_1")))[0] * 1e3, 1
    )
    figures["all_summaries_ms"] = round(cpu_of(lambda: sum(1 for _ in reader.summaries()))[0] * 1e3, 1)
    figures["random_reads_ms"] = round(cpu_of(lambda: [reader.get(name) for name in some])[0] * 1e3, 1)
    seconds, number = cpu_of(lambda: sum(1 for _ in reader))
    figures["iterate_us_per_episode"] = round(seconds / number * 1e6)
    figures["rss_mib_after_reading"] = round(rss_mib(), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--run", type=Path, help="a run folder whose trajectories are copied")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.run:
        with RunDir.open(given.run).store() as store:
            sources = list(store)
    else:
        sources = written_episodes(2000)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        figures = measure(sources, given.episodes, Path(folder))
    for name, value in figures.items():
        if not given.json:
            print(f"{name:<28} {value}")
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
