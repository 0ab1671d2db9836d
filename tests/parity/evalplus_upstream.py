"""Upstream's own evaluation and sanitiser, run by the interpreter of `build_evalplus.py`: a JSON request on stdin, a JSON answer on stdout.

{"do": "sanitize", "texts": [[text, entry point], ...]} -> [[largest block, sanitised], ...]
{"do": "check", "data": [path, ...], "rows": [[task id, solution], ...], "held": [[task id, ...], ...], "least_s": 4.0} -> for each list in
    `held` {"verdicts": [[base, plus], ...], "cpu_s", "wall_s", "rss_mib"}, while the process holds the expected outputs of the tasks of that
    list, of those before it, and of the rows (upstream holds those of the whole data set).
"""

import gzip
import json
import multiprocessing
import os
import resource
import sys
import time
import types
import warnings
from pathlib import Path


def prepare() -> None:
    """Empty modules for what is imported at the top of upstream's files and not used here."""
    warnings.simplefilter("ignore")
    for name, attribute in (("datasets", "load_dataset"), ("wget", "download"), ("tempdir", "TempDir")):
        module = types.ModuleType(name)
        setattr(module, attribute, None)
        sys.modules[name] = module


def sanitize(request: dict) -> list:
    from evalplus.sanitize import code_extract, sanitize

    return [[code_extract(text), sanitize(text, entry)] for text, entry in request["texts"]]


def check(request: dict) -> list:
    from evalplus.data.mbpp import mbpp_deserialize_inputs

    problems = {}
    for path in request["data"]:
        for line in gzip.decompress(Path(path).read_bytes()).splitlines():
            problem = json.loads(line)
            if problem["task_id"].startswith("Mbpp/"):
                for key in ("base_input", "plus_input"):
                    problem[key] = mbpp_deserialize_inputs(problem["task_id"], problem[key])
            problems[problem["task_id"]] = problem
    expected, answers = {}, []
    for held in request["held"]:
        for task_id in dict.fromkeys([*held, *(task_id for task_id, _ in request["rows"])]):
            if task_id not in expected:
                expected[task_id] = oracle(problems[task_id])
        answers.append(judge(request["rows"], problems, expected, request["least_s"]))
    return answers


def oracle(problem: dict) -> dict:
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.gen.util import trusted_exec

    found = {}
    for tests in ("base", "plus"):
        found[tests], found[f"{tests}_time"] = trusted_exec(
            problem["prompt"] + problem["canonical_solution"],
            problem[f"{tests}_input"],
            problem["entry_point"],
            record_time=True,
            output_not_none=problem["entry_point"] in MBPP_OUTPUT_NOT_NONE_TASKS,
        )
    return found


def judge(rows: list, problems: dict, expected: dict, least_s: float) -> dict:
    from evalplus.evaluate import check_correctness

    before, started = spent(), time.monotonic()
    verdicts = []
    for task_id, solution in rows:
        dataset = "mbpp" if task_id.startswith("Mbpp/") else "humaneval"
        problem = problems[task_id]
        found = check_correctness(
            dataset, 0, problem, solution, expected[task_id], fast_check=True, min_time_limit=least_s
        )
        verdicts.append([found["base"][0], found["plus"][0]])
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "verdicts": verdicts,
        "cpu_s": spent() - before,
        "wall_s": time.monotonic() - started,
        "rss_mib": pages * resource.getpagesize() / (1 << 20),
    }


def spent() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    multiprocessing.set_start_method("fork")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepare()
    request = json.load(sys.stdin)
    json.dump({"sanitize": sanitize, "check": check}[request["do"]](request), answers)
    answers.close()


if __name__ == "__main__":
    main()
