"""The official BFCL checker behind JSON lines: runs in the oracle's environment, never in ours.

A request is `{"op": NAME, "items": [...]}`, the reply `{"results": [...], "cpu_s": seconds spent in upstream's code}`
with one result per item; where upstream raises, the result is `{"crash": "TypeError: ..."}`. Values are packed as
`wire.py` says. The operations call the wheel's own functions and runners; nothing of the verdict is decided here.

What is replaced: `bfcl_eval.constants.model_config`, which imports every vendor's SDK (a table with the two models
`plain` and `u2d`, the latter with `underscore_to_dot`); the vendor module `openai`, never called; and the writing of
score files, whose rows are kept instead.
"""

import collections
import functools
import os
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

SCRATCH = tempfile.TemporaryDirectory(prefix="oracle-")
os.environ["BFCL_PROJECT_ROOT"] = SCRATCH.name
os.environ["TZ"] = "UTC"
time.tzset()
REPLIES = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # upstream prints; standard output is for replies alone


class ModelConfig(types.SimpleNamespace):
    """What the checker and the leaderboard read of a model."""

    def __init__(self, underscore_to_dot: bool) -> None:
        super().__init__(
            underscore_to_dot=underscore_to_dot,
            display_name="model",
            url="url",
            org="org",
            license="license",
            input_price=None,
            output_price=None,
        )


class ModelConfigs(dict):
    """Any model name is known; only `u2d` has names with underscores for dots."""

    def __missing__(self, name: str) -> ModelConfig:
        return ModelConfig(underscore_to_dot=name == "u2d")


def _stub(name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module


_stub("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING=ModelConfigs())
_stub("openai", OpenAI=object, RateLimitError=ConnectionError)

import play  # noqa: E402
import wire  # noqa: E402
from bfcl_eval.constants.eval_config import POSSIBLE_ANSWER_PATH, PROMPT_PATH  # noqa: E402
from bfcl_eval.eval_checker import eval_runner, eval_runner_helper  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.type_convertor import java_type_converter, js_type_converter  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker as multi_turn  # noqa: E402
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils  # noqa: E402
from bfcl_eval.model_handler import utils as handler_utils  # noqa: E402
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler  # noqa: E402
from bfcl_eval.utils import load_file  # noqa: E402

LANGUAGES = collections.defaultdict(lambda: "Python", java="Java", javascript="JavaScript")
ROWS: list[dict[str, Any]] = []
NUMBERS = iter(range(10**12))


def _keep_rows(_name: str, rows: list[dict[str, Any]], _folder: Any = None) -> None:
    ROWS[:] = rows


eval_runner.write_list_of_dicts_to_file = _keep_rows


def category_of(task_id: str) -> str:
    return task_id.rsplit("_", 1)[0]


@functools.cache
def prompts(category: str) -> dict[str, Any]:
    return {row["id"]: row for row in load_file(PROMPT_PATH / f"BFCL_v3_{category}.json", sort_by_id=True)}


@functools.cache
def answers(category: str) -> dict[str, Any]:
    return {row["id"]: row for row in load_file(POSSIBLE_ANSWER_PATH / f"BFCL_v3_{category}.json", sort_by_id=True)}


class Handler:
    """A model's handler, as the runners ask it: prompting mode or OpenAI's function calling."""

    def __init__(self, native: bool) -> None:
        self._native = OpenAICompletionsHandler.__new__(OpenAICompletionsHandler)
        self._native.model_name, self._native.is_fc_model = "plain", native

    def decode_ast(self, result: Any, language: str = "Python") -> Any:
        return self._native.decode_ast(result, language)

    def decode_execute(self, result: Any) -> Any:
        return self._native.decode_execute(result)


def decode_ast(item: dict[str, Any]) -> Any:
    """{text, language} -> decoded calls."""
    return handler_utils.default_decode_ast_prompting(item["text"], item.get("language", "Python"))


def decode_execute(item: dict[str, Any]) -> Any:
    """{text} -> call strings."""
    return handler_utils.default_decode_execute_prompting(item["text"])


def native_ast(item: dict[str, Any]) -> Any:
    """{calls} -> decoded calls of a function-calling model."""
    return Handler(native=True).decode_ast(item["calls"])


def native_execute(item: dict[str, Any]) -> Any:
    """{calls} -> call strings of a function-calling model."""
    return Handler(native=True).decode_execute(item["calls"])


def java_value(item: dict[str, Any]) -> Any:
    """{text, kind, item_kind} -> the value of Java source text for a declared type."""
    return java_type_converter.java_type_converter(item["text"], item["kind"], item["item_kind"])


def javascript_value(item: dict[str, Any]) -> Any:
    """{text, kind, item_kind} -> the value of JavaScript source text for a declared type."""
    return js_type_converter.js_type_converter(item["text"], item["kind"], item["item_kind"])


def ast_check(item: dict[str, Any]) -> Any:
    """{id, decoded[, model]}, or functions, answer, language, category in place of the id -> [valid, error_type]."""
    category = item.get("category") or category_of(item["id"])
    functions = item["functions"] if "functions" in item else prompts(category)[item["id"]]["function"]
    answer = item["answer"] if "answer" in item else answers(category)[item["id"]]["ground_truth"]
    language = item.get("language") or LANGUAGES[category]
    result = ast_checker(functions, item["decoded"], answer, language, category, item.get("model", "plain"))
    return [result["valid"], None if result["valid"] else result["error_type"]]


def decode_and_check(item: dict[str, Any]) -> bool:
    """{id, text} -> whether it is valid: the work of grading one answer and nothing else, for measuring speed."""
    category = category_of(item["id"])
    row, answer, language = prompts(category)[item["id"]], answers(category)[item["id"]], LANGUAGES[category]
    decoded = handler_utils.default_decode_ast_prompting(item["text"], language)
    if not eval_runner.is_function_calling_format_output(decoded):
        return False
    return ast_checker(row["function"], decoded, answer["ground_truth"], language, category, "plain")["valid"]


def check_decoded(item: dict[str, Any]) -> Any:
    """{id, decoded[, model]} -> [valid, error_type] by upstream's file runner, given what its decoder gave."""
    category, task_id = category_of(item["id"]), item["id"]
    rows = [[{"id": task_id, "result": item["decoded"]}], [prompts(category)[task_id]], [answers(category)[task_id]]]
    handler = types.SimpleNamespace(decode_ast=lambda result, _language: result)
    eval_runner.ast_file_runner(handler, *rows, LANGUAGES[category], category, item.get("model", "plain"), Path())
    return _kept_verdict()


def grade_ast(item: dict[str, Any]) -> Any:
    """{id, result[, native, model]} -> [valid, error_type] by upstream's file runner: decoding, form and check."""
    category, task_id = category_of(item["id"]), item["id"]
    rows = [[{"id": task_id, "result": item["result"]}], [prompts(category)[task_id]], [answers(category)[task_id]]]
    handler = Handler(item.get("native", False))
    eval_runner.ast_file_runner(handler, *rows, LANGUAGES[category], category, item.get("model", "plain"), Path())
    return _kept_verdict()


def relevance(item: dict[str, Any]) -> Any:
    """{category, result[, native]} -> [valid, error_type] by upstream's runner of the (ir)relevance categories."""
    rows = [{"id": "row", "result": item["result"]}]
    handler = Handler(item.get("native", False))
    eval_runner.relevance_file_runner(handler, rows, [{}], "plain", item["category"], Path())
    return _kept_verdict()


def multi_turn_check(item: dict[str, Any]) -> Any:
    """{id, turns (turn, step, call string)[, entry, ground_truth, fresh]} -> [valid, error_type]; instances are dropped.

    With `fresh` the simulators' modules are loaded anew, as in a process that has graded nothing before.
    """
    if item.get("fresh"):
        _forget_simulators()
    entry = item.get("entry") or prompts(category_of(item["id"]))[item["id"]]
    truth = (
        item["ground_truth"] if "ground_truth" in item else answers(category_of(item["id"]))[item["id"]]["ground_truth"]
    )
    try:
        result = multi_turn.multi_turn_checker(item["turns"], truth, entry, category_of(entry["id"]), _fresh_model())
    finally:
        _drop_instances()
    return [result["valid"], None if result["valid"] else result["error_type"]]


def grade_multi_turn(item: dict[str, Any]) -> Any:
    """{id, result (turn, step, raw response)[, native]} -> [valid, error_type] by upstream's file runner."""
    category, task_id = category_of(item["id"]), item["id"]
    rows = [
        [{"id": task_id, "result": item["result"]}],
        [dict(prompts(category)[task_id])],
        [answers(category)[task_id]],
    ]
    handler = Handler(item.get("native", False))
    try:
        eval_runner.multi_turn_runner(handler, *rows, _fresh_model(), category, Path())
    finally:
        _drop_instances()
    return _kept_verdict()


def execute_multi_turn(item: dict[str, Any]) -> Any:
    """{id, steps (lists of call strings)[, entry, fresh]} -> {results: one list a step, state: public attributes as text}."""
    if item.get("fresh"):
        _forget_simulators()
    entry = item.get("entry") or prompts(category_of(item["id"]))[item["id"]]
    model, results, instances = "model", [], {}  # ours has the same name, since its length can reach a result
    try:
        for calls in item["steps"]:
            step, instances = multi_turn_utils.execute_multi_turn_func_call(
                calls,
                entry["initial_config"],
                entry["involved_classes"],
                model,
                entry["id"],
                long_context="long_context" in entry["id"],
            )
            results.append(step)
        return {"results": results, "state": {name: _state(instance) for name, instance in instances.items()}}
    finally:
        _drop_instances()


def play_episode(item: dict[str, Any]) -> Any:
    """{id, native, script: raw responses in order} -> {asked: messages and tools at each query, result}."""
    try:
        return play.play(prompts(category_of(item["id"]))[item["id"]], item["native"], item["script"], _fresh_model())
    finally:
        _drop_instances()


def aggregate(item: dict[str, Any]) -> Any:
    """{scores: {category: {accuracy, total_count}}} -> {csv file: {column: cell}} of upstream's leaderboard."""
    folder = Path(SCRATCH.name) / f"board{next(NUMBERS)}"
    folder.mkdir()
    eval_runner_helper.generate_leaderboard_csv({"plain": item["scores"]}, folder)
    return {path.name: _first_row(path) for path in sorted(folder.glob("*.csv"))}


def _first_row(path: Path) -> dict[str, str]:
    header, row = path.read_text().split("\n")[:2]
    return dict(zip(header.split(","), row.split(","), strict=True))


def _kept_verdict() -> list[Any]:
    if len(ROWS) == 1:
        return [True, None]
    row = ROWS[1]
    return [False, row["error_type"] if "error_type" in row else row["error"]["error_type"]]


def _fresh_model() -> str:
    return f"m{next(NUMBERS)}"


def _state(instance: Any) -> dict[str, str]:
    return {name: repr(value) for name, value in sorted(vars(instance).items()) if not name.startswith("_")}


def _forget_simulators() -> None:
    for name in [name for name in sys.modules if ".func_source_code." in name]:
        del sys.modules[name]


def _drop_instances() -> None:
    for name in [name for name in vars(multi_turn_utils) if name.endswith("_instance")]:
        delattr(multi_turn_utils, name)


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        decode_ast,
        decode_execute,
        native_ast,
        native_execute,
        java_value,
        javascript_value,
        ast_check,
        decode_and_check,
        check_decoded,
        grade_ast,
        relevance,
        multi_turn_check,
        grade_multi_turn,
        execute_multi_turn,
        play_episode,
        aggregate,
    )
}


def _guarded(operation: Any, item: dict[str, Any]) -> Any:
    try:
        return operation(item)
    except BaseException as error:  # noqa: BLE001 - whatever upstream raises is its answer
        return {"crash": f"{type(error).__name__}: {error}"[:300]}


def _answer(line: str) -> str:
    request = wire.loads(line)
    operation = OPERATIONS[request["op"]]
    start = time.process_time()
    results = [_guarded(operation, item) for item in request["items"]]
    return wire.dumps({"results": results, "cpu_s": time.process_time() - start})


def main() -> None:
    for line in sys.stdin:
        REPLIES.write(_answer(line) + "\n")
        REPLIES.flush()


if __name__ == "__main__":
    main()
