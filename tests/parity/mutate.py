"""Wrong, odd and broken outputs for BFCL's single-turn tasks, seeded: what parity is tried on beside right answers.

`broken_calls` changes decoded calls, `odd_value` makes a value for a declared type, `broken_text` changes a model's
text. Nothing here computes (no `**` or `<<` between numbers): the oracle evaluates what it is sent.
"""

import random
import string
from collections.abc import Callable
from typing import Any

Calls = list[dict[str, dict[str, Any]]]
CallsChange = Callable[[random.Random, Calls], Any]
TextChange = Callable[[random.Random, str], str]


def broken_calls(rng: random.Random, calls: Calls) -> tuple[str, Any]:
    """The name of a change and the changed copy; now and then two changes at once."""
    change = rng.choice(CALL_CHANGES)
    result = change(rng, _copy(calls))
    if rng.random() < 0.15 and _is_calls(result):
        second = rng.choice(CALL_CHANGES)
        return f"{change.__name__}+{second.__name__}", second(rng, result)
    return change.__name__, result


def _is_calls(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(call, dict) and len(call) == 1 and isinstance(next(iter(call.values())), dict) for call in value
    )


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copy(item) for item in value)
    return value


def _arguments(rng: random.Random, calls: Calls) -> dict[str, Any]:
    return next(iter(rng.choice(calls).values())) if calls else {}


def _on_value(wanted: type | tuple[type, ...], change: Callable[[random.Random, Any], Any]) -> CallsChange:
    """A change of one argument of a given type, nested ones included; of any argument where none has it."""

    def mutate(rng: random.Random, calls: Calls) -> Any:
        places = [
            (holder, key) for holder, key in _places(calls) if isinstance(holder[key], wanted) and not _is_call(holder)
        ]
        if places:
            holder, key = rng.choice(places)
            holder[key] = change(rng, holder[key])
        return calls

    mutate.__name__ = change.__name__.removeprefix("_")
    return mutate


def _is_call(holder: Any) -> bool:
    return isinstance(holder, dict) and len(holder) == 1 and isinstance(next(iter(holder.values())), dict)


def _places(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        inner = [(value, key) for key in value]
    elif isinstance(value, list):
        inner = [(value, index) for index in range(len(value))]
    else:
        return []
    return inner + [place for holder, key in inner for place in _places(holder[key])]


def _wrong_text(rng: random.Random, value: str) -> str:
    return rng.choice([value + "!", value[1:], value[::-1], "", value * 2, value + "x", "é" + value])


def _other_case_and_punctuation(rng: random.Random, value: str) -> str:
    marks = ["upper", "lower", "title", "swapcase"]
    changed = getattr(value, rng.choice(marks))()
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(changed) + 1)
        changed = changed[:at] + rng.choice(" ,./-_*^'\"") + changed[at:]
    return changed


def _other_quotes(_rng: random.Random, value: str) -> str:
    return value.replace("'", "\0").replace('"', "'").replace("\0", '"')


def _text_to_number(_rng: random.Random, value: str) -> Any:
    try:
        return int(value)
    except ValueError:
        return len(value)


def _number_to_text(rng: random.Random, value: float) -> str:
    return rng.choice([str(value), f"{value} ", repr(value)])


def _int_to_float(_rng: random.Random, value: Any) -> float:
    return float(value) if abs(value) < 10**300 else 0.0


def _float_to_int(_rng: random.Random, value: float) -> int:
    return int(value) if abs(value) < 10**300 else 0


def _other_number(rng: random.Random, value: Any) -> Any:
    return rng.choice([value + 1, -value, value * 2, value - 1])


def _number_to_bool(_rng: random.Random, value: Any) -> bool:
    return bool(value)


def _bool_to_int(rng: random.Random, value: bool) -> Any:
    return rng.choice([int(value), not value, str(value), float(value)])


def _list_to_tuple(_rng: random.Random, value: list[Any]) -> tuple[Any, ...]:
    return tuple(value)


def _reversed_list(_rng: random.Random, value: list[Any]) -> list[Any]:
    return value[::-1]


def _other_length(rng: random.Random, value: list[Any]) -> list[Any]:
    return rng.choice([value[1:], [*value, *value[:1]], [], [value], [*value, None], [*value, ""]])


def _other_keys(rng: random.Random, value: dict[Any, Any]) -> dict[Any, Any]:
    items = list(value.items())
    extra = [("extra", 1), ("", ""), (1, 2), (None, "x")]
    changed = rng.choice(
        [items[1:], [*items, rng.choice(extra)], items[::-1], [(f"{key}_", item) for key, item in items]]
    )
    return dict(changed)


def _wrapped(rng: random.Random, value: Any) -> Any:
    return rng.choice([[value], {"value": value}, (value,), [[value]], repr(value), None, ""])


def _odd(rng: random.Random, _value: Any) -> Any:
    return odd_value(rng, rng.choice(KINDS))


def other_type(rng: random.Random, calls: Calls) -> Any:
    """Any argument becomes a value of any kind."""
    arguments = _arguments(rng, calls)
    if arguments:
        arguments[rng.choice(list(arguments))] = odd_value(rng, rng.choice(KINDS))
    return calls


def extra_parameter(rng: random.Random, calls: Calls) -> Any:
    _arguments(rng, calls)[rng.choice(["extra", "", "unit", None])] = odd_value(rng, rng.choice(KINDS))
    return calls


def dropped_parameter(rng: random.Random, calls: Calls) -> Any:
    arguments = _arguments(rng, calls)
    if arguments:
        del arguments[rng.choice(list(arguments))]
    return calls


def renamed_parameter(rng: random.Random, calls: Calls) -> Any:
    arguments = _arguments(rng, calls)
    if arguments:
        key = rng.choice(list(arguments))
        arguments[f"{key}{rng.choice('s_1')}"] = arguments.pop(key)
    return calls


def swapped_values(rng: random.Random, calls: Calls) -> Any:
    arguments = _arguments(rng, calls)
    keys, values = list(arguments), list(arguments.values())
    rng.shuffle(values)
    arguments.update(zip(keys, values, strict=True))
    return calls


def reordered_parameters(rng: random.Random, calls: Calls) -> Any:
    for call in calls:
        for name, arguments in call.items():
            items = list(arguments.items())
            rng.shuffle(items)
            call[name] = dict(items)
    return calls


def renamed_function(rng: random.Random, calls: Calls) -> Any:
    if calls:
        index = rng.randrange(len(calls))
        ((name, arguments),) = calls[index].items()
        changes = [f"{name}_", name.replace(".", "_"), name.split(".")[-1], name.upper(), "", name.replace("_", ".")]
        calls[index] = {rng.choice(changes): arguments}
    return calls


def dropped_call(rng: random.Random, calls: Calls) -> Any:
    if calls:
        del calls[rng.randrange(len(calls))]
    return calls


def repeated_call(rng: random.Random, calls: Calls) -> Any:
    if calls:
        calls.insert(rng.randrange(len(calls) + 1), _copy(rng.choice(calls)))
    return calls


def replaced_call(rng: random.Random, calls: Calls) -> Any:
    if calls:
        calls[rng.randrange(len(calls))] = _copy(rng.choice(calls))
    return calls


def reordered_calls(rng: random.Random, calls: Calls) -> Any:
    rng.shuffle(calls)
    return calls


def malformed(rng: random.Random, calls: Calls) -> Any:
    """No list of one-key dicts of dicts any more, or barely one."""
    return rng.choice(
        [
            [],
            {},
            None,
            "text",
            [*calls, "text"],
            [{}],
            [*calls, {}],
            tuple(calls),
            [{"a": {}, "b": {}}],
            [{"a": 1}],
            [list(call.items()) for call in calls],
            calls[0] if calls else 0,
            [[*calls]],
        ]
    )


CALL_CHANGES: list[CallsChange] = [
    _on_value(str, _wrong_text),
    _on_value(str, _other_case_and_punctuation),
    _on_value(str, _other_quotes),
    _on_value(str, _text_to_number),
    _on_value((int, float), _number_to_text),
    _on_value(int, _int_to_float),
    _on_value(float, _float_to_int),
    _on_value((int, float), _other_number),
    _on_value((int, float), _number_to_bool),
    _on_value(bool, _bool_to_int),
    _on_value(list, _list_to_tuple),
    _on_value(list, _reversed_list),
    _on_value(list, _other_length),
    _on_value(dict, _other_keys),
    _on_value(object, _wrapped),
    _on_value(object, _odd),
    other_type,
    extra_parameter,
    dropped_parameter,
    renamed_parameter,
    swapped_values,
    reordered_parameters,
    renamed_function,
    dropped_call,
    repeated_call,
    replaced_call,
    reordered_calls,
    malformed,
]

KINDS = ("string", "integer", "float", "boolean", "array", "tuple", "dict", "any")


def odd_value(rng: random.Random, kind: str, allowed: Any = None, depth: int = 0) -> Any:
    """A value that a model might give for a declared Python type: mostly of the type, near an allowed one if there is any."""
    options = [option for option in allowed if option != ""] if isinstance(allowed, list) else []
    if options and rng.random() < 0.5:
        return near(rng, rng.choice(options), depth)
    if rng.random() < 0.15:
        kind = rng.choice(KINDS)
    if kind in ("string", "any"):
        return rng.choice(["", "a", "A b", "x_y", "'q'", '"', "None", "true", "1", "é", *(_words(rng),)])
    if kind == "integer":
        return rng.choice([0, 1, -1, 2, 10, 10**18, 10**400, True, rng.randrange(-100, 100)])
    if kind == "float":
        return rng.choice([0.0, -0.0, 1.0, 0.1, 1e308, float("inf"), float("-inf"), 3, 10**400, rng.random() * 100])
    if kind == "boolean":
        return rng.choice([True, False, None, 0, 1, "True"])
    if kind == "dict":
        return {_words(rng): odd_value(rng, rng.choice(KINDS), None, depth + 1) for _ in range(rng.randrange(3))}
    items = [
        odd_value(rng, rng.choice(KINDS) if depth < 2 else "string", None, depth + 1) for _ in range(rng.randrange(4))
    ]
    return tuple(items) if kind == "tuple" and rng.random() < 0.7 else items


def near(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """A value like the given one; lists inside dicts are alternatives of the answer, and one is taken or kept."""
    if rng.random() < 0.05:
        return odd_value(rng, rng.choice(KINDS), None, depth + 1)
    if isinstance(value, dict):
        return {
            key: near(
                rng, rng.choice(item) if isinstance(item, list) and item and rng.random() < 0.9 else item, depth + 1
            )
            for key, item in value.items()
            if rng.random() < 0.93
        }
    if isinstance(value, list):
        items = [near(rng, item, depth + 1) for item in value]
        return rng.choice([items, items, items, items[::-1], items[1:], tuple(items)])
    if isinstance(value, str):
        return rng.choice([value, value, _other_case_and_punctuation(rng, value), _wrong_text(rng, value)])
    if isinstance(value, bool):
        return rng.choice([value, not value, int(value)])
    if isinstance(value, int | float):
        return rng.choice([value, value, float(value), int(value), str(value), value + 1, True])
    return value


def _words(rng: random.Random) -> str:
    return "".join(rng.choice(string.ascii_letters + " _.-") for _ in range(rng.randrange(1, 9)))


_JAVA_PIECES = (
    *("new ", "new  ", "new\n", "int[]", "String[] ", "Object[]", "ArrayList<>", "ArrayList<String>", "ArrayList<a,b>"),
    *("HashMap<>", "HashMap<String, Object>", "HashMap<\n>", "()", "( )", "(", ")", "{", "}", "{{", "}}", "{ {", "} }"),
    *(
        "(Arrays.asList(",
        "Arrays.asList(",
        "))",
        "add(",
        'put("',
        '",',
        '", ',
        '",\n',
        "put(",
        '"',
        "'",
        ",",
        ";",
        " ",
        "\n",
    ),
    *(
        "1",
        "-2",
        "3L",
        "4l",
        "1.5",
        "2f",
        "1e3",
        "1.0F",
        "true",
        "false",
        "a",
        "'c'",
        '"s"',
        "null",
        "x.y",
        "1_0",
        "\t",
        "-",
    ),
)
_JAVA_WHOLES = (
    "new int[]{%s, %s}",
    "new String[] { %s }",
    "new ArrayList<>(Arrays.asList(%s, %s))",
    "new ArrayList<Integer>() {{ add(%s); add(%s); }}",
    "new ArrayList<>()%s",
    'new HashMap<String, Object>() {{ put("a", %s); put("%s", %s); }}',
    "new HashMap<>()%s",
    "new HashMap<>() { %s }",
    "%s",
)
_JS_PIECES = (
    *(
        "[",
        "]",
        "[[",
        "]]",
        "[ [",
        "] ]",
        "],[",
        "], [",
        "{",
        "}",
        "{a: ",
        ",",
        ", ",
        ":",
        ": ",
        "new Array(",
        "new Array([",
        ")",
    ),
    *(
        "1",
        "-2",
        "3n",
        "1.5",
        "1e3",
        "true",
        "false",
        "a",
        "'c'",
        '"s"',
        "null",
        "x.y",
        " ",
        "\n",
        '"',
        "'",
        "a:1",
        "b: [2]",
    ),
)
_JS_WHOLES = (
    "[%s, %s]",
    "[[%s, %s], [%s]]",
    " [ [%s], [%s] ]%s",
    "new Array(%s, %s)",
    "new Array([%s], [%s])",
    "{a: %s, b: %s}",
    "{'k': %s, \"l\": [%s]}",
    "{%s}",
    "%s",
)


def java_text(rng: random.Random) -> str:
    """Text that may be Java source of a collection or a literal."""
    return _source_text(rng, _JAVA_PIECES, _JAVA_WHOLES)


def javascript_text(rng: random.Random) -> str:
    """Text that may be JavaScript source of a collection or a literal."""
    return _source_text(rng, _JS_PIECES, _JS_WHOLES)


def _source_text(rng: random.Random, pieces: tuple[str, ...], wholes: tuple[str, ...]) -> str:
    if rng.random() < 0.4:
        return "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 14)))
    whole = rng.choice(wholes)
    text = whole % tuple(
        "".join(rng.choice(pieces) for _ in range(rng.randrange(0, 3))) for _ in range(whole.count("%s"))
    )
    return _edited(rng, text) if rng.random() < 0.4 else text


def broken_text(rng: random.Random, text: str) -> tuple[str, str]:
    """The name of a change and the changed text."""
    change = rng.choice(TEXT_CHANGES)
    return change.__name__, change(rng, text)


def cut(rng: random.Random, text: str) -> str:
    """Unclosed brackets, quotes and calls."""
    return text[: rng.randrange(len(text) + 1)]


def cut_front(rng: random.Random, text: str) -> str:
    return text[rng.randrange(len(text) + 1) :]


def fenced(rng: random.Random, text: str) -> str:
    return rng.choice(["```%s```", "```\n%s\n```", "```python\n%s\n```", "`%s`", "```json\n%s```", "``` %s"]) % text


def spoken(rng: random.Random, text: str) -> str:
    """Prose before or after."""
    shapes = ["Sure! %s", "%s\nDone.", "Here you are:\n%s", "%s.", "I call %s now", "<think>x</think>%s", "%s;", "# %s"]
    return rng.choice(shapes) % text


def unbracketed(rng: random.Random, text: str) -> str:
    bare = text.strip("[]")
    return rng.choice(["%s", "[%s", "%s]", "(%s)", "[[%s]]", "'%s'", "{%s}", "[%s,]", " %s ", "[%s]]", "('%s')"]) % bare


def positional(_rng: random.Random, text: str) -> str:
    head, _, tail = text.partition("(")
    _, _, value = tail.partition("=")
    return f"{head}({value}" if value else f"{head}(1, {tail}"


ODD_VALUES = (
    *("true", "null", "None", "+1", "-1", "not True", "~5", "--1", "-x", "-'a'", "not x", "1j", "-1j", "...", "-..."),
    *(
        "g()",
        "g(1)",
        "g(y=1)",
        "g(h(z=2))",
        "a.g(b='c')",
        "g(1, y=2)",
        "g()()",
        "a[0](x=1)",
        "(lambda: 1)()",
        "g(*a, **b)",
    ),
    *(
        "{'a': {'b': 1}}",
        "{}",
        "{'a': {}}",
        "{'a': 1, 'b': {}}",
        "{a: 1}",
        "{1: 2}",
        "{**a}",
        "{(1, 2): 3}",
        "{[1]: 2}",
        "{'a'}",
    ),
    *(
        "x[0]",
        "x['k']",
        "x[1:2]",
        "x[1, 2]",
        "x[::2]",
        "a.b[c.d]",
        "[1][0]",
        "lambda x: x",
        "lambda: 1",
        "f'a'",
        "f'{x}'",
    ),
    *(
        "a.b",
        "a.b.c",
        "[x for x in y]",
        "{x: 1 for x in y}",
        "(x for x in y)",
        "1 if a else 2",
        "a and b",
        "1 < 2",
        "(y := 1)",
    ),
    *(
        "*a",
        "b'x'",
        "'a' 'b'",
        "'a' + 'b'",
        "1 + 2",
        "60 * 60",
        "7 / 2",
        "7 // 2",
        "7 % 4",
        "1 / 0",
        "2 - -3",
        "1 + 2j",
    ),
    *(
        "[1] + [2]",
        "[1] * 2",
        "'ab' * 2",
        "(1,) + (2,)",
        "'%s' % 1",
        "'%d' % 'a'",
        "1 + x",
        "x + y",
        "'a' + x",
        "a.b + 1",
    ),
    *(
        "-(1 + 2)",
        "(1 + 2) * 3",
        "1 + True",
        "6 & 3",
        "6 | 1",
        "6 ^ 2",
        "1 << 2",
        "8 >> 1",
        "2 ** 3",
        "2 ** -1",
        "1 @ 2",
        "{1} | {2}",
    ),
    *(
        "()",
        "(1)",
        "(1,)",
        "[]",
        "[[]]",
        "[1, [2, (3,)]]",
        "0x10",
        "0b1",
        "1_000",
        "1e400",
        "01",
        "1.",
        ".5",
        "1__0",
        "0xfor",
    ),
    *(
        "'\\d'",
        "r'\\d'",
        "'\\x41'",
        "'\\u00e9'",
        "'\\N{DASH}'",
        "'\\ud800'",
        "'''a\nb'''",
        "é",
        "'日本'",
        "\u2018a\u2019",
        "'a\tb'",
        "yield",
        "await x",
    ),
    *(
        "new int[]{1, 2}",
        "new HashMap<>()",
        'new Foo(1, "a")',
        'new Foo(1, "a") {{ put("b", 2); }}',
        "new int[5]",
        "Foo.class",
        "'c'",
        '"a" + "b"',
    ),
    *(
        "new int[][]{{1}, {2}}",
        "(int) 3",
        "a -> b",
        "Foo::bar",
        "x ? 1 : 2",
        "1L",
        "2.5f",
        '"""\na"""',
        "this.a",
        "a[0]",
        "!a",
        "-1.5",
        "List.of(1, 2)",
    ),
    *(
        "[1, 'a', true]",
        "{a: 1, 'b': [2]}",
        "new Array(1, 2)",
        "() => 1",
        "function (x) { return x; }",
        "`t${x}`",
        "undefined",
        "/re/g",
        "a?.b",
        "...a",
    ),
    *(
        "async () => {}",
        "class {}",
        "1n",
        '"it\'s"',
        "'say \"x\"'",
        "<a/>",
        "a /* c */",
        "typeof a",
        "new Date()",
        "x++",
        "a = 1",
        "b += 2",
    ),
)


def odd_argument(rng: random.Random, text: str) -> str:
    """One argument's value becomes something odd."""
    places = [index for index, char in enumerate(text) if char == "="]
    if not places:
        return f"[f(a={rng.choice(ODD_VALUES)})]"
    at = rng.choice(places)
    stop = min((end for end in (text.find(", ", at), text.find(")", at)) if end > 0), default=len(text))
    return text[: at + 1] + rng.choice(ODD_VALUES) + text[stop:]


def odd_call(rng: random.Random, _text: str) -> str:
    """A call that has little to do with the task."""
    value, other = rng.choice(ODD_VALUES), rng.choice(ODD_VALUES)
    shapes = [
        "[f(a=%s)]",
        "f(a=%s, b=%s)",
        "[f(%s)]",
        "[f(a=%s), g(b=%s)]",
        "[f(a=%s, a=%s)]",
        "[f(**%s)]",
        "[a.b.f(x=%s)]",
    ]
    shapes += [
        "[%s]",
        "%s",
        "[f(a=[%s, %s])]",
        "[f(a={'k': %s})]",
        "[f(a=g(b=%s))]",
        "(f(a=%s), 1)",
        "[f(a = %s)]",
        "f(a=%s);",
    ]
    shape = rng.choice(shapes)
    return shape % ((value, other) if shape.count("%s") == 2 else (value,))


def edited(rng: random.Random, text: str) -> str:
    """A few characters deleted, inserted, doubled or swapped."""
    return _edited(rng, text)


_NOISE = "()[]{}'\"=,.: \n`\\;<>+-!|&#@$é1a_"


def _edited(rng: random.Random, text: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        choice = rng.randrange(4)
        if choice == 0:
            text = text[:at] + text[at + 1 :]
        elif choice == 1:
            text = text[:at] + rng.choice(_NOISE) + text[at:]
        elif choice == 2:
            text = text[:at] + text[at : at + 1] * 2 + text[at + 1 :]
        else:
            text = text[:at] + text[at + 1 : at + 2] + text[at : at + 1] + text[at + 2 :]
    return text


def other_quotes(_rng: random.Random, text: str) -> str:
    return _other_quotes(_rng, text)


def foreign_letters(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at]
        + rng.choice(["é", "日本", "😀", "\u00a0", "\u200b", "“", "\ud800", "\x00", "\x0c", "\r\n"])
        + text[at:]
    )


def empty(rng: random.Random, _text: str) -> str:
    return rng.choice(
        ["", "[]", " ", "\n", "[[]]", "()", "[()]", "{}", "''", "``", "```\n```", "None", "[None]", "no", "[", "]"]
    )


def native_markup(rng: random.Random, text: str) -> str:
    shapes = [
        "<tool_call>\n%s\n</tool_call>",
        "[TOOL_CALLS]%s",
        "<|python_tag|>%s",
        '{"name": "%s"}',
        "Action: %s",
        "print(%s)",
    ]
    return rng.choice(shapes) % text


def doubled(rng: random.Random, text: str) -> str:
    return rng.choice(["%s%s", "%s, %s", "%s\n%s", "[%s, %s]", "%s; %s"]) % (text, text)


TEXT_CHANGES: list[TextChange] = [
    cut,
    cut_front,
    fenced,
    spoken,
    unbracketed,
    positional,
    odd_argument,
    odd_argument,
    odd_argument,
    odd_call,
    odd_call,
    edited,
    edited,
    edited,
    other_quotes,
    foreign_letters,
    empty,
    native_markup,
    doubled,
]


def made_up_task(rng: random.Random) -> dict[str, Any]:
    """Functions, an answer that may contradict them, a category, and a call list near the answer."""
    names = rng.sample(["f", "g.h", "a_b"], rng.randrange(1, 4))
    functions = [_made_up_function(rng, name) for name in names]
    category = rng.choice(["simple", "multiple", "parallel", "parallel_multiple"])
    count = rng.randrange(1, 4) if "parallel" in category else 1
    answer = [_made_up_answer(rng, rng.choice(functions)) for _ in range(count)]
    decoded = [_made_up_call(rng, wanted) for wanted in answer]
    rng.shuffle(decoded)
    return {"functions": functions, "answer": answer, "category": category, "language": "Python", "decoded": decoded}


def _made_up_function(rng: random.Random, name: str) -> dict[str, Any]:
    properties = {parameter: _made_up_declaration(rng) for parameter in rng.sample("abcd", rng.randrange(1, 4))}
    required = [parameter for parameter in properties if rng.random() < 0.4]
    return {"name": name, "parameters": {"type": "dict", "properties": properties, "required": required}}


def _made_up_declaration(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(KINDS)
    return {"type": kind, "items": {"type": rng.choice(KINDS)}} if kind in ("array", "tuple") else {"type": kind}


def _made_up_answer(rng: random.Random, function: dict[str, Any]) -> dict[str, Any]:
    allowed: dict[str, Any] = {}
    for parameter, declaration in function["parameters"]["properties"].items():
        if rng.random() < 0.9:
            allowed[parameter] = [_made_up_option(rng, declaration) for _ in range(rng.randrange(1, 4))]
            if rng.random() < 0.3:
                allowed[parameter].insert(rng.randrange(2), "")
    if rng.random() < 0.05:
        allowed["extra"] = [1, ""]
    if allowed and rng.random() < 0.03:
        allowed[rng.choice(list(allowed))] = rng.choice(["text", "", []])
    return {function["name"] if rng.random() < 0.98 else "other": allowed}


def _made_up_option(rng: random.Random, declaration: dict[str, Any]) -> Any:
    kind = declaration["type"] if rng.random() < 0.9 else rng.choice(KINDS)
    item = declaration.get("items", {}).get("type", rng.choice(KINDS))
    if kind in ("array", "tuple"):
        return [_made_up_option(rng, {"type": item}) for _ in range(rng.randrange(3))]
    if kind == "dict":
        return {key: _alternatives(rng) for key in rng.sample("xyz", rng.randrange(3))}
    return rng.choice(
        {"string": ["", "a", "A b"], "any": ["a", 1], "integer": [1, 2], "float": [1.0, 2.5], "boolean": [True, False]}[
            kind
        ]
    )


def _alternatives(rng: random.Random) -> Any:
    """A key's allowed values: a list as it should be, now and then something else."""
    if rng.random() < 0.05:
        return rng.choice(["ab", "", 1, None, {"k": 1}, {}])
    return [_json_value(rng) for _ in range(rng.randrange(1, 3))] + ([""] if rng.random() < 0.3 else [])


def _json_value(rng: random.Random) -> Any:
    return rng.choice([1, 2.5, True, None, "a", "A b", "", [1], ["a"], {"k": "v"}, {"k": ["v"]}])


def _made_up_call(rng: random.Random, wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    ((name, allowed),) = wanted.items()
    given = {
        parameter: near(rng, rng.choice(options)) if isinstance(options, list) and options else odd_value(rng, "any")
        for parameter, options in allowed.items()
        if rng.random() < 0.9
    }
    return {name: given}
