"""BFCL's official verdict on decoded calls: the AST checker and the relevance rule, quirks included.

Source: `ast_checker`, `ast_file_runner` and `relevance_file_runner` of bfcl-eval 2025.8.6.2. An answer is a list of
expected calls {name: {parameter: [allowed values]}}; `""` among the allowed values means that it may be left out.
Verdicts and error types are upstream's. Where upstream raises instead of answering, and its whole run ends, ours is
invalid with the error type `CRASH`; that takes data that contradicts itself, or values such as a float parameter given as an
integer beyond any float.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from envs.bfcl import java, javascript
from envs.bfcl.decode import MAX_TEXT, DecodeError
from envs.bfcl.outcome import Outcome

CRASH: Final = "upstream_crash"
VALID: Final = Outcome(True)

_IGNORED: Final = str.maketrans("'", '"', " ,./-_*^")
"""What doesn't count in a text: these characters, and which quote is used."""


class _Dialect(NamedTuple):
    """How a language's declared types map to Python's, and how a value is read from its source text (None: it is one)."""

    types: Mapping[str, type]
    plain: Mapping[str, type]
    """Those whose values are compared as they are, or equal texts as texts."""
    collections: frozenset[str]
    read: Callable[[str, str, str | None], Any] | None
    not_text: str


_PYTHON_TYPES: Final[dict[str, type]] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_PYTHON_SCALARS: Final = {kind: declared for kind, declared in _PYTHON_TYPES.items() if declared not in (list, dict)}
_DIALECTS: Final = {
    "Python": _Dialect(_PYTHON_TYPES, _PYTHON_SCALARS, frozenset({"array", "tuple"}), None, ""),
    "Java": _Dialect(java.TYPES, {}, frozenset({"Array", "ArrayList"}), java.read_java, "type_error:java"),
    "JavaScript": _Dialect(javascript.TYPES, {}, frozenset({"array"}), javascript.read_javascript, "type_error:js"),
}


class Crash(Exception):
    """Upstream raises here."""


def check_calls(
    functions: Sequence[Mapping[str, Any]],
    decoded: Any,
    answer: Sequence[Mapping[str, Any]],
    language: str,
    category: str,
    *,
    underscore_to_dot: bool,
) -> Outcome:
    """The official verdict on what a decoder gave.

    `language` is "Python", "Java" or "JavaScript"; the category's name decides how calls are matched. With
    `underscore_to_dot` the model's function names have `_` where the docs have `.`, as upstream configures for some models.
    """
    if not well_formed(decoded):
        return Outcome(False, "ast_decoder:decoder_wrong_output_format", {"why": "The output is no list of calls."})
    task = CallTask(functions, answer, language, underscore_to_dot)
    try:
        return _rule(category)(task, decoded)
    except Crash as crash:
        return Outcome(False, CRASH, {"why": f"Upstream's checker raises here: {crash}."})


def check_relevance(decoded: Any, category: str) -> Outcome:
    """The official verdict where no answer is expected: for irrelevance nothing may be called, for relevance something must.

    `decoded` is what the decoder gave, or its DecodeError. Any unreadable output counts as no call.
    """
    called = holds_calls(decoded)
    if "irrelevance" in category:
        return Outcome(False, "irrelevance_error:decoder_success", {"why": "It called."}) if called else VALID
    return VALID if called else Outcome(False, "relevance_error:decoder_failed", {"why": "It did not call."})


def holds_calls(decoded: Any) -> bool:
    """Whether a decoder's result has at least one call."""
    return not isinstance(decoded, DecodeError) and well_formed(decoded) and bool(decoded)


def well_formed(decoded: Any) -> bool:
    """Whether a decoder's result is a list, perhaps empty, of one-key dicts that hold dicts."""
    if type(decoded) is not list:
        return False
    for call in decoded:
        if type(call) is not dict or len(call) != 1:
            return False
        (arguments,) = call.values()
        if type(arguments) is not dict:
            return False
    return True


class CallTask(NamedTuple):
    """What calls are checked against."""

    functions: Sequence[Mapping[str, Any]]
    answer: Sequence[Mapping[str, Any]]
    language: str
    underscore_to_dot: bool

    def judge(self, call: Mapping[str, Any], expected: int) -> Outcome:
        """One call against one expected call, by the doc that has the latter's name. Raises Crash."""
        wanted = self.answer[expected]
        return self._judge(self._doc(next(iter(wanted))), call, wanted)

    def judge_by_first_doc(self, call: Mapping[str, Any]) -> Outcome:
        """One call against the first expected call by the first doc, whatever the answer calls it."""
        return self._judge(self.functions[0], call, self.answer[0])

    def _doc(self, name: str) -> Mapping[str, Any]:
        for doc in self.functions:
            if doc["name"] == name:
                return doc
        raise Crash(f"no function of the task is named {name!r}")

    def _judge(self, doc: Mapping[str, Any], call: Mapping[str, Any], wanted: Mapping[str, Any]) -> Outcome:
        name = doc["name"].replace(".", "_") if self.underscore_to_dot else doc["name"]
        if name not in call:
            return _fault("simple_function_checker:wrong_func_name", f"Function {name!r} is not what is called.")
        return _judge_arguments(doc["parameters"], call[name], next(iter(wanted.values())), _DIALECTS[self.language])


def _rule(category: str) -> Callable[[CallTask, list[Any]], Outcome]:
    if "parallel" in category:
        return _check_parallel
    return _check_multiple if "multiple" in category else _check_simple


def _check_simple(task: CallTask, calls: list[Any]) -> Outcome:
    if len(calls) != 1:
        return wrong_count("simple_function_checker", len(calls), 1)
    return task.judge_by_first_doc(calls[0])


def _check_multiple(task: CallTask, calls: list[Any]) -> Outcome:
    if len(calls) != len(task.answer):
        return wrong_count("multiple_function_checker", len(calls), len(task.answer))
    return task.judge(calls[0], 0)


def _check_parallel(task: CallTask, calls: list[Any]) -> Outcome:
    """Each expected call takes the first unused call that fits, without looking back (parallel_178 depends on order)."""
    if len(calls) != len(task.answer):
        return wrong_count("parallel_function_checker_no_order", len(calls), len(task.answer))
    unused = list(range(len(calls)))
    for expected in range(len(task.answer)):
        fit = next((index for index in unused if task.judge(calls[index], expected).valid), None)
        if fit is None:
            return no_match(expected)
        unused.remove(fit)
    return VALID


def wrong_count(checker: str, given: int, wanted: int) -> Outcome:
    """Another number of calls than expected."""
    return _fault(f"{checker}:wrong_count", f"{given} calls, {wanted} expected.")


def no_match(expected: int) -> Outcome:
    """An expected call that no call fits."""
    return _fault(
        "parallel_function_checker_no_order:cannot_find_match", f"No unused call fits expected call {expected}."
    )


def _fault(error_type: str, why: str, parameter: str | None = None) -> Outcome:
    return Outcome(False, error_type, {"why": why} if parameter is None else {"why": why, "parameter": parameter})


def _judge_arguments(
    parameters: Mapping[str, Any], given: Mapping[str, Any], allowed: Mapping[str, Any], dialect: _Dialect
) -> Outcome:
    try:
        properties, required, plain = parameters["properties"], parameters["required"], dialect.plain
    except KeyError:
        raise Crash("the function's parameters lack 'properties' or 'required'") from None
    for name in required:
        if name not in given:
            return _fault("simple_function_checker:missing_required", "A required parameter is missing.", name)
    for name, value in given.items():
        if name not in properties or name not in allowed:
            return _fault("simple_function_checker:unexpected_param", "The parameter is not expected.", name)
        options = allowed[name]
        if type(value) is plain.get(properties[name].get("type")) and type(options) is list and value in options:
            continue  # the common case, which none of the rules would refuse
        error_type = _judge_value(value, properties[name], options, dialect)
        if error_type is not None:
            return _fault(error_type, f"A {type(value).__name__} that is not allowed.", name)
    if len(given) < len(allowed):  # each that is given is allowed, so equal numbers leave none out
        for name, values in allowed.items():
            if name not in given and "" not in values:
                return _fault("simple_function_checker:missing_optional", "The parameter may not be left out.", name)
    return VALID


def _judge_value(value: Any, declaration: Mapping[str, Any], allowed: Any, dialect: _Dialect) -> str | None:
    """The error type of one argument, None if it is allowed. Raises Crash."""
    kind: str = declaration.get("type", "")
    declared = _known_type(dialect, kind)
    item_kind = _item_kind(declaration) if kind in dialect.collections else None
    if dialect.read is not None:
        if type(value) is not str:
            return dialect.not_text
        value = _read(dialect.read, value, kind, item_kind)
    elif type(value) is not declared:
        value = _converted(value, kind)
    item_type = None if item_kind is None else _known_type(dialect, item_kind)
    error_type, variable = _judge_type(value, allowed, declared, item_type)
    if error_type is not None:
        return error_type
    if variable or declared not in (str, list, dict):
        return None if _among(value, allowed) else "value_error:others"
    return _judge_content(value, allowed, declared, item_type)


def _known_type(dialect: _Dialect, kind: str) -> type:
    declared = dialect.types.get(kind)
    if declared is None:
        raise Crash(f"the declared type {kind!r} is unknown")
    return declared


def _item_kind(declaration: Mapping[str, Any]) -> str:
    try:
        return declaration["items"]["type"]
    except KeyError:
        raise Crash("the type of an array's items is not declared") from None


def _read(read: Callable[[str, str, str | None], Any], text: str, kind: str, item_kind: str | None) -> Any:
    if len(text) > MAX_TEXT:
        return text
    try:
        return read(text, kind, item_kind)
    except (ValueError, KeyError) as fault:
        raise Crash(f"the source text can't be read as {kind}") from fault


def _converted(value: Any, kind: str) -> Any:
    if kind == "tuple" and type(value) is tuple:
        return list(value)
    if kind == "float" and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Crash("the integer is beyond any float") from None
    return value


def _judge_type(value: Any, allowed: Any, declared: type, item_type: type | None) -> tuple[str | None, bool]:
    """The error type, and whether the value stands for a variable: then it is only compared as it is.

    The type of the first allowed value counts beside the declared one.
    """
    reference = _reference_type(allowed)
    if type(value) is declared:
        if item_type is None or any(_items_fit(value, option, item_type) for option in allowed):
            return None, reference is not None and reference is not declared
        return ("type_error:nested" if reference is list else "type_error:simple"), False
    return (None, True) if reference is type(value) else ("type_error:simple", False)


def _reference_type(allowed: Any) -> type | None:
    """Type of the first allowed value that isn't "", None if there is none. A None that is allowed counts by its type."""
    for option in allowed:
        if option != "":
            return type(option)
    return None


def _items_fit(values: Sequence[Any], option: Any, item_type: type) -> bool:
    """Whether every item has the declared type or that of the option's first item; an option that is no list says yes."""
    if type(option) is not list:
        return True
    reference = _reference_type(option)
    return all(type(value) is item_type or type(value) is reference for value in values)


def _among(value: Any, allowed: Any) -> bool:
    if isinstance(allowed, str) and not isinstance(value, str):
        raise Crash("the allowed values are one text, and the value is none")
    return value in allowed


def _judge_content(value: Any, allowed: Any, declared: type, item_type: type | None) -> str | None:
    if declared is dict:
        return _judge_dict(value, allowed)
    if item_type is dict:
        return _judge_dicts(value, allowed)
    if declared is str:
        return None if _text_allowed(value, allowed) else "value_error:string"
    return None if _list_allowed(value, allowed) else "value_error:list/tuple"


def _plain(value: Any) -> Any:
    """A text without what doesn't count; anything else as it is."""
    return value.translate(_IGNORED).lower() if type(value) is str else value


def _text_allowed(value: str, allowed: Sequence[Any]) -> bool:
    if type(allowed) is list and value in allowed:
        return True
    plain = _plain(value)
    return any(type(option) is str and _plain(option) == plain for option in allowed)


def _list_allowed(values: list[Any], allowed: Sequence[Any]) -> bool:
    """Same items in the same order as one option. A text as an option is its characters, so "" is the empty list."""
    options = [[_plain(item) for item in _items_of(option)] for option in allowed]
    return [_plain(value) for value in values] in options


def _items_of(option: Any) -> Sequence[Any]:
    if isinstance(option, list | str):
        return option
    if option == {}:
        return ()
    raise Crash("an allowed value has no items")


def _sized(option: Any) -> Collection[Any]:
    if isinstance(option, list | str | dict):
        return option
    raise Crash("an allowed value has no length")


def _judge_dict(value: Any, options: Sequence[Any]) -> str | None:
    """The error type is that of the last option tried."""
    error_type: str | None = "dict_checker:unclear"
    for option in options:
        if option == "":
            continue
        error_type = _judge_dict_by(value, option)
        if error_type is None:
            return None
    return error_type


def _judge_dict_by(value: Any, option: Any) -> str | None:
    if not isinstance(value, dict) or not isinstance(option, dict):
        raise Crash("a dict is compared with something else")
    error_type = None
    for key, item in value.items():
        if key not in option:
            error_type = "value_error:dict_key"
            break
        if _plain(item) not in [_plain(allowed) for allowed in _items_of(option[key])]:
            error_type = "value_error:dict_value"
            break
    if any(key not in value and "" not in _sized(allowed) for key, allowed in option.items()):
        return "value_error:dict_key"
    return error_type


def _judge_dicts(values: Sequence[Any], options: Sequence[Any]) -> str | None:
    """Dicts by position; the error type is that of the last option tried."""
    error_type: str | None = "list_dict_checker:unclear"
    for option in options:
        if len(values) != len(_sized(option)):
            error_type = "value_error:list_dict_count"
            continue
        error_type = next(_dict_errors(values, _items_of(option)), None)
        if error_type is None:
            return None
    return error_type


def _dict_errors(values: Sequence[Any], option: Sequence[Any]) -> Iterator[str]:
    for value, wanted in zip(values, option, strict=True):
        error_type = _judge_dict(value, [wanted])
        if error_type is not None:
            yield error_type
