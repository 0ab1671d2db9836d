"""`harness trajectories`: what people and programs see of a store."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from toystore import OURS, THEIRS, episode

from harness import show
from harness.transcript import safe, transcript, wrap
from trajectories.failures import InputError
from trajectories.schema import Action, CallRecord, Message, Step, ToolCall
from trajectories.store import Store

COUNT = 12


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose store holds twelve episodes, one of them owed again."""
    folder = tmp_path_factory.mktemp("run")
    with Store.create(folder / "trajectories") as store:
        for number in range(COUNT):
            store.append(episode(number, failure={3: THEIRS, 4: OURS}.get(number)))
    return folder


def said(function: Any, *arguments: Any, **options: Any) -> str:
    out = io.StringIO()
    assert function(*arguments, out=out, **options) == 0
    return out.getvalue()


def test_ls_has_a_line_for_each_trajectory_and_its_count(run: Path) -> None:
    heading, *rows, count = said(show.ls, run).splitlines()
    assert heading.split() == ["id", "task", "agent", "k", "ended", "score", "steps", "calls", "seconds"]
    assert [row.split()[1] for row in rows] == [f"task_{number}" for number in range(COUNT)]
    assert "infrastructure: Infra" in rows[4]
    assert rows[0].split()[-4:] == ["1.00", "2", "2", "0.25"]
    assert count == "12 of 12 trajectories"


def test_ls_filters_and_stops_at_the_head(run: Path) -> None:
    rows = said(show.ls, run, category="category_1", head=2).splitlines()[1:-1]
    assert [row.split()[1] for row in rows] == ["task_1", "task_4"]


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (132, "id task agent k ended score steps calls seconds"),
        (100, "id task agent k ended score steps calls seconds"),
        (80, "id task agent k ended score steps"),
        (60, "task agent k ended score"),
        (44, "task agent ended score"),
    ],
)
def test_ls_in_a_narrow_terminal_keeps_how_it_ended_and_the_score(
    run: Path, monkeypatch: pytest.MonkeyPatch, width: int, headings: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    show.ls(run, out=terminal)
    heading, *rows, _ = terminal.getvalue().splitlines()
    assert heading.split() == headings.split()
    assert max(len(row) for row in (heading, *rows)) <= width
    at = heading.index("score")
    assert [row[at : at + 5].strip() for row in rows[:2]] == ["1.00", "0.00"]
    assert rows[4][heading.index("ended") :].startswith("infrastruct")


def test_ls_as_json_is_one_array(run: Path) -> None:
    rows = json.loads(said(show.ls, run, json=True, min_score=0.5))
    assert [row["task_id"] for row in rows] == [f"task_{number}" for number in (0, 2, 6, 8, 10)]
    assert rows[0]["id"] == episode(0).id
    assert rows[0]["done"] is True
    assert json.loads(said(show.ls, run, json=True, limit="context_window")) == []
    assert len(json.loads(said(show.ls, run, json=True, head=0))) == COUNT


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        ({"ended": "terminatd"}, "Unknown end in this run: 'terminatd'. Did you mean 'terminated' or"),
        ({"category": ["category_1", "category_9"]}, "Unknown category in this run: 'category_9'. Did you mean"),
        ({"agent": "agent_7"}, "Known: agent_0, agent_1."),
        ({"benchmark": "none"}, "Unknown benchmark in this run: 'none'. Known: toy."),
        ({"boundary": "ours"}, "Unknown boundary in this run: 'ours'."),
        ({"limit": "max_step"}, "Unknown limit that truncated in this run: 'max_step'. Did you mean 'max_steps'?"),
    ],
)
def test_names_that_the_run_does_not_have_are_refused_with_the_near_ones(
    run: Path, filters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        said(show.ls, run, **filters)
    assert sentence in str(refused.value)


def test_an_empty_store_has_no_wrong_names(tmp_path: Path) -> None:
    Store.create(tmp_path / "store").close()
    assert json.loads(said(show.ls, tmp_path / "store", json=True, agent="any")) == []


def test_show_prints_calls_with_their_results_and_rewards(run: Path) -> None:
    text = said(show.show, run, episode(2).id)
    lines = text.splitlines()
    assert lines[0] == f"trajectory {episode(2).id}"
    assert "task     toy · task_2 · category_2 · test · en" in lines
    call = lines.index("  → tool_1(number=2, at=0)")
    assert lines[call + 1].startswith("  ← result 2.0 result 2.0")
    words = text.split()
    assert words.count("2.0") == words.count("2.1") == 12  # the message is not repeated
    assert "step 1 · turn 1 · agent 0.125 s · env 0.500 s" in lines
    assert "terminated · reward 1 · 2 steps · 20 tokens in, 6 out · 0.25 s" in lines
    assert "  official passed, score 1 (official@1)" in lines
    assert max(map(len, lines)) <= 132


def test_show_as_json_is_the_trajectory(run: Path) -> None:
    assert type(episode(2)).from_json(said(show.show, run, episode(2).id, json=True)) == episode(2)


def test_show_takes_a_prefix_or_the_task(run: Path) -> None:
    whole = said(show.show, run, episode(2).id)
    assert said(show.show, run, episode(2).id[:9]) == whole
    assert said(show.show, run, "task_2") == whole


def test_of_a_task_that_was_played_more_than_once_the_first_is_shown_and_the_others_are_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    one, other = episode(2), episode(3)
    key = one.key.model_copy(update={"attempt": 1})
    again = one.model_copy(update={"id": key.trajectory_id(), "key": key})
    theirs_key = other.key.model_copy(update={"task": one.key.task})
    theirs = other.model_copy(update={"id": theirs_key.trajectory_id(), "key": theirs_key})
    with Store.create(path) as store:
        for trajectory in (again, one, theirs):
            store.append(trajectory)
    errors = io.StringIO()
    first, *_ = said(show.show, path, "task_2", errors=errors).splitlines()
    assert first == f"trajectory {one.id}"
    assert errors.getvalue().startswith("This is attempt 0 of agent_0 (")
    assert f"attempt 0 of agent_1 ({theirs.id[:12]}), attempt 1 of agent_0 ({again.id[:12]})" in errors.getvalue()
    silent = io.StringIO()
    assert again.id in said(show.show, path, "task_2", errors=silent, attempt=1)
    assert theirs.id in said(show.show, path, "task_2", errors=silent, agent="agent_1")
    assert silent.getvalue() == ""
    with pytest.raises(InputError, match="'task_2' was not played so: there is attempt 0 of agent_0"):
        said(show.show, path, "task_2", agent="agent_1", attempt=1)
    with pytest.raises(InputError, match="names one trajectory already"):
        said(show.show, path, one.id, attempt=1)


def test_an_unknown_or_ambiguous_id_names_the_near_ones(run: Path) -> None:
    wanted = episode(2).id
    with pytest.raises(InputError, match=f"There is no trajectory '{wanted[:8]}zz' .* Near ones: .*{wanted}"):
        said(show.show, run, wanted[:8] + "zz")
    with pytest.raises(InputError, match="is the start of several ids"):
        said(show.show, run, "")
    with pytest.raises(InputError, match="`harness trajectories ls` lists all"):
        said(show.show, run, "~")


def test_stats_count_and_sum(run: Path) -> None:
    figures = json.loads(said(show.stats, run, json=True))
    assert (figures["trajectories"], figures["done"], figures["owed_again"]) == (12, 11, 1)
    assert (figures["steps"], figures["calls"], figures["prompt_tokens"]) == (24, 24, 240)
    assert figures["by"]["boundary"] == {"-": 10, "agent": 1, "infrastructure": 1}
    assert 0 < figures["bytes_per_step"] < 2000
    assert "by failure" in said(show.stats, run)


def test_verify_says_what_is_wrong_and_fails(run: Path, tmp_path: Path) -> None:
    assert said(show.verify, run) == "12 trajectories: everything can be read and agrees\n"
    broken = tmp_path / "broken"
    with Store.create(broken) as store:
        store.append(episode(0))
    (segment,) = (broken / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1])
    out = io.StringIO()
    assert show.verify(broken, json=True, out=out) == 1
    found = json.loads(out.getvalue())
    assert not found["ok"]
    assert segment.name in found["problems"][0]["sentence"]
    errors = io.StringIO()
    show.stats(broken, out=io.StringIO(), errors=errors)
    assert "bytes instead of" in errors.getvalue()


def damage(path: Path, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    for at in range(start, end):
        content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("with_catalogue", [True, False])
def test_of_a_damaged_segment_the_way_out_is_said_once_and_never_to_delete_the_catalogue(
    tmp_path: Path, with_catalogue: bool
) -> None:
    path = tmp_path / "store"
    with Store.create(path) as store:
        for number in range(COUNT):
            store.append(episode(number))
    (segment,) = (path / "segments").iterdir()
    size = segment.stat().st_size
    damage(segment, size // 8, size * 7 // 8)
    if not with_catalogue:
        for file in path.glob("catalogue.sqlite*"):
            file.unlink()
    out = io.StringIO()
    assert show.verify(path, out=out) == 1
    text = " ".join(out.getvalue().split())
    assert segment.name in text
    assert "delete" not in text
    assert text.count(f"`harness trajectories compact {path} --drop-damaged`") == 1


def test_compact_says_what_it_did(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        for _ in range(2):
            store.append(episode(0))
            store.seal()
    text = said(show.compact, tmp_path / "store")
    assert text.startswith("1 trajectories, 1 superseded ones left out, ")
    assert json.loads(said(show.compact, tmp_path / "store", json=True))["superseded"] == 0


def test_colours_are_for_terminals_only(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in said(show.show, run, "task_2")
    terminal = Terminal()
    show.show(run, "task_2", out=terminal)
    assert "\x1b[1;36massistant\x1b[0m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show.show(run, "task_2", out=plain)
    assert "\x1b" not in plain.getvalue()


EVIL = "\x1b[2J\x1b]0;owned\x07 \r overwritten \x9b31m \u202e reversed \u2028 \x00 \x7f"


def test_nothing_that_was_said_reaches_the_terminal_as_a_control_character() -> None:
    call = ToolCall(id="1", name=EVIL, arguments={EVIL: EVIL})
    step = Step(
        action=Action(content=EVIL, reasoning=EVIL, tool_calls=(call,)),
        observation=(
            Message(role="tool", content=EVIL, tool_call_id="1", name=EVIL),
            Message(role="user", content=EVIL),
        ),
        calls=(CallRecord(name=EVIL, arguments=EVIL, result=EVIL, error="tool_error"),),
        parse_error=EVIL,
    )
    evil = episode(
        0, id=EVIL, steps=0, failure=THEIRS.model_copy(update={"message": EVIL, "kind": EVIL, "traceback": EVIL})
    )
    changes = {
        "steps": (step,),
        "tools": (episode(0).tools[0].model_copy(update={"name": EVIL}),),
        "limit": EVIL,
        "data": EVIL,
    }
    text = "\n".join(line.text for line in transcript(evil.model_copy(update=changes), 80))
    assert "\\x1b[2J\\x1b]0;owned\\x07" in text
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert not set(text) & set("\x7f\x9b\u202e\u2028")


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, [""]),
        ("short", 10, ["short"]),
        ("two words", 5, ["two", "words"]),
        ("a\nb\n", 5, ["a", "b", ""]),
        ("unbreakable", 4, ["unbr", "eaka", "ble"]),
        ("工具調用", 4, ["工具", "調用"]),
        ("    kept indent", 11, ["    kept", "indent"]),
        ("e\u0301" * 6, 3, ["e\u0301" * 3, "e\u0301" * 3]),
    ],
)
def test_wrapping_counts_columns_and_keeps_words(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


def test_line_ends_and_tabs_are_kept_as_they_look() -> None:
    assert safe("a\r\nb\tc\rd") == "a\nb    c\\x0dd"
