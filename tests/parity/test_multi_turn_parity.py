"""The multi-turn grader and executor beside upstream's own, on the ground truth and on seeded mutants of it.

HARNESS_MT_MUTANTS sets how many mutants are compared (400 by default). The two sides can't agree on the order in which
a set prints, which in upstream's process changes from run to run: such lists are compared sorted.
"""

import dataclasses
import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mutate_turns
import pytest
from mutate_turns import Episode
from oracle import Oracle, crashed

from envs.bfcl.dataset import Row, load
from envs.bfcl.grading import outcome
from envs.bfcl.multi_turn import check_multi_turn, check_multi_turn_strict
from envs.bfcl.outcome import RawOutput
from envs.bfcl.simulators import Simulation
from envs.bfcl.tasks import UNWINNABLE

MUTANTS = int(os.environ.get("HARNESS_MT_MUTANTS", "400"))


@pytest.fixture(scope="module")
def rows(bfcl_data: Path) -> list[Row]:
    return [row for row in load("test").rows.values() if row.multi_turn]


@pytest.fixture(scope="module")
def mutants(rows: list[Row]) -> list[tuple[Row, str, Episode]]:
    rng = random.Random(20251201)
    pool = mutate_turns.pool_of(rows)
    return [(row, *mutate_turns.mutant(row, pool, rng)) for row in rng.choices(rows, k=MUTANTS)]


def _results(row: Row, episode: Episode) -> list[list[str]]:
    simulation = Simulation(row)
    return [simulation.run(step) for turn in episode for step in turn]


def _with_sets_sorted(steps: list[list[str]]) -> list[list[str]]:
    return [[_SET.sub(_sorted_set, _FIELDS.sub(_sorted_set, text)) for text in step] for step in steps]


_SET = re.compile(r"(Must be one of )\{(.*?)\}")
_FIELDS = re.compile(r"(Invalid fields for update: )([^\"]*)")


def _sorted_set(match: re.Match[str]) -> str:
    return match[1] + ", ".join(sorted(match[2].split(", ")))


def _leaks(row: Row) -> bool:
    """Whether upstream carries something from one task to the next (TwitterAPI's default list of mentions)."""
    return "TwitterAPI" in row.involved_classes


def _differing_results(oracle: Oracle, pairs: list[tuple[Row, Episode]]) -> Iterator[str]:
    asked = [
        {"id": row.id, "steps": [step for turn in episode for step in turn], "fresh": _leaks(row)}
        for row, episode in pairs
    ]
    for (row, episode), theirs in zip(pairs, oracle.ask("execute_multi_turn", asked), strict=True):
        ours = _results(row, episode)
        if crashed(theirs) or _with_sets_sorted(ours) != _with_sets_sorted(theirs["results"]):
            yield f"{row.id}: {episode}"


def _differing_verdicts(oracle: Oracle, pairs: list[tuple[Row, Episode]], **options: Any) -> Iterator[str]:
    asked = [{"id": row.id, "turns": episode, "fresh": _leaks(row), **options} for row, episode in pairs]
    for (row, episode), theirs in zip(pairs, oracle.ask("multi_turn_check", asked), strict=True):
        ours = check_multi_turn(episode, row)
        if [ours.valid, ours.error_type] != theirs:
            yield f"{row.id}: ours {ours}, upstream {theirs}: {episode}"


@pytest.mark.parametrize("episode_of", [mutate_turns.one_step, mutate_turns.one_call_a_step])
def test_every_ground_truth_passes_as_upstream_says_and_so_it_does_strictly(
    oracle: Oracle, rows: list[Row], episode_of: Any
) -> None:
    pairs = [(row, episode_of(row)) for row in rows]
    assert len(pairs) == 800
    assert not list(_differing_verdicts(oracle, pairs))
    assert all(check_multi_turn(episode, row).valid for row, episode in pairs)
    assert all(check_multi_turn_strict(episode, row).valid for row, episode in pairs)


def test_ground_truth_calls_give_upstreams_result_strings(oracle: Oracle, rows: list[Row]) -> None:
    assert not list(_differing_results(oracle, [(row, mutate_turns.one_call_a_step(row)) for row in rows]))


@pytest.mark.study
def test_mutants_get_upstreams_verdict_and_error_type(oracle: Oracle, mutants: list[tuple[Row, str, Episode]]) -> None:
    pairs = [(row, episode) for row, _, episode in mutants]
    differing = list(_differing_verdicts(oracle, pairs))
    assert not differing, differing[:3]


@pytest.mark.study
def test_mutants_calls_give_upstreams_result_strings(oracle: Oracle, mutants: list[tuple[Row, str, Episode]]) -> None:
    differing = list(_differing_results(oracle, [(row, episode) for row, _, episode in mutants]))
    assert not differing, differing[:3]


def test_the_mutants_are_a_fair_mix(mutants: list[tuple[Row, str, Episode]]) -> None:
    verdicts = [check_multi_turn(episode, row) for row, _, episode in mutants]
    share = {kind: sum(verdict.error_type == kind for verdict in verdicts) / len(verdicts) for kind in _KINDS}
    assert all(part > 0.05 for part in share.values()), share
    names = {name for _, chosen, _ in mutants for name in chosen.split("+")}
    assert names == {mutate.__name__ for mutate in mutate_turns.MUTATIONS}


_KINDS = (
    None,
    "multi_turn:instance_state_mismatch",
    "multi_turn:execution_response_mismatch",
    "multi_turn:empty_turn_model_response",
)


def _as_text(episode: Episode) -> list[list[str]]:
    return [[f"[{', '.join(step)}]" for step in turn] for turn in episode]


def test_the_length_of_an_episode_is_judged_as_upstreams_runner_does(oracle: Oracle, rows: list[Row]) -> None:
    """A force quit in an earlier turn cuts the episode short; one in the last turn leaves its length."""
    cases: list[tuple[Row, Any]] = []
    for row in [row for row in rows if not row.id.endswith("_154")][::40]:
        text = _as_text(mutate_turns.one_call_a_step(row))
        busy = [turn for turn, calls in enumerate(row.ground_truth) if calls]
        cases += [(row, text), (row, text[:-1]), (row, [*text, []]), (row, []), (row, text[: busy[-1]])]
        cases += [(row, [*text[:-1], text[-1] * 22]), (row, [text[0] * 22])]
        cases += [(row, [["I can't do that."] for _ in text]), (row, [[*turn, "Done.", ""] for turn in text])]
    theirs = oracle.ask("grade_multi_turn", [{"id": row.id, "result": result} for row, result in cases])
    for (row, result), verdict in zip(cases, theirs, strict=True):
        ours = outcome(row, RawOutput(result), "official")
        assert [ours.valid, ours.error_type] == verdict, (row.id, result)
    assert {tuple(verdict) for verdict in theirs} >= {(True, None), (False, "multi_turn:force_terminated")}


def test_the_unwinnable_task_fails_for_as_many_turns_as_it_asks(oracle: Oracle, rows: list[Row]) -> None:
    (row,) = [row for row in rows if row.id in UNWINNABLE]
    text = _as_text(mutate_turns.one_step(row))[: len(row.question)]
    (theirs,) = oracle.ask("grade_multi_turn", [{"id": row.id, "result": text}])
    ours = outcome(row, RawOutput(text), "official")
    assert [ours.valid, ours.error_type] == theirs == [False, "multi_turn:force_terminated"]


def _row(rows: list[Row], *classes: str, category: str = "multi_turn_base") -> Row:
    return next(row for row in rows if row.category == category and set(classes) <= set(row.involved_classes))


def _with_extra(row: Row, calls: list[str], turn: int = 0) -> Episode:
    episode = mutate_turns.one_step(row)
    episode[turn] = [calls, *episode[turn]]
    return episode


def test_what_both_sides_share_in_a_module_is_shared_as_upstream_does(oracle: Oracle, rows: list[Row]) -> None:
    """A change of the default list of mentions by one side reaches the other."""
    twitter = [row for row in rows if "TwitterAPI" in row.involved_classes][::6]
    login = [f"authenticate_twitter(username={name!r}, password={word!r})" for name, word in _logins(twitter)]
    pairs: list[tuple[Row, Episode]] = []
    for row, call in zip(twitter, login, strict=True):
        count = row.initial_config.get("TwitterAPI", {}).get("tweet_counter", 0)
        extra = [call, "post_tweet(content='a')", f"mention(tweet_id={count}, mentioned_usernames=['@b'])"]
        pairs += [(row, _with_extra(row, extra, turn)) for turn in range(len(row.ground_truth))]
        own = [f"mention(tweet_id={count + more}, mentioned_usernames=['@b'])" for more in (0, 1)]
        pairs += [(row, [*mutate_turns.one_step(row)[:-1], [*mutate_turns.one_step(row)[-1], own]])]
    differing = list(_differing_verdicts(oracle, pairs, fresh=True))
    assert not differing, differing[:3]


def _logins(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        config = row.initial_config.get("TwitterAPI", {})
        yield config.get("username", "john"), config.get("password", "john123")


def test_bookings_on_the_padded_cards_of_a_long_context_are_judged_as_upstream_does(
    oracle: Oracle, rows: list[Row]
) -> None:
    travel = [row for row in rows if row.long_context and "TravelAPI" in row.involved_classes][::3]
    pairs: list[tuple[Row, Episode]] = []
    for row in travel:
        simulation = Simulation(row)
        api = simulation.instances["TravelAPI"]
        for card in [card for card in api.credit_card_list if card not in _own_cards(row)][:3]:
            booking = (
                f"book_flight(access_token={api.access_token!r}, card_id={card!r}, travel_date='2024-11-10', "
                "travel_from='SFO', travel_to='LAX', travel_class='economy')"
            )
            look = f"get_credit_card_balance(access_token={api.access_token!r}, card_id={card!r})"
            pairs += [(row, _with_extra(row, calls)) for calls in ([booking], [look], [booking, look])]
    differing = list(_differing_verdicts(oracle, pairs, fresh=True))
    assert not differing, differing[:3]


def _own_cards(row: Row) -> set[str]:
    return set(row.initial_config.get("TravelAPI", {}).get("credit_card_list", {}))


def test_the_same_free_text_fails_officially_where_it_looks_like_a_call_and_passes_strictly(
    oracle: Oracle, rows: list[Row]
) -> None:
    row = _row(rows, "GorillaFileSystem")
    truth = [["echo(content='now ls (all)', file_name='n.txt')"]]
    entry = {
        "id": row.id,
        "initial_config": row.initial_config,
        "involved_classes": list(row.involved_classes),
    }
    asked = {"id": row.id, "entry": entry, "turns": [truth], "ground_truth": truth}
    (theirs,) = oracle.ask("multi_turn_check", [asked])
    changed = _with_truth(row, truth)
    ours = check_multi_turn([truth], changed)
    assert [ours.valid, ours.error_type] == theirs == [False, "multi_turn:instance_state_mismatch"]
    assert check_multi_turn_strict([truth], changed).valid


def _with_truth(row: Row, truth: list[list[str]]) -> Row:
    return dataclasses.replace(row, ground_truth=truth)


def test_where_upstream_crashes_the_verdict_is_a_state_mismatch(oracle: Oracle, rows: list[Row]) -> None:
    """A directory that both sides copy into itself makes upstream compare without end."""
    row = _row(rows, "GorillaFileSystem")
    truth = [["mkdir(dir_name='loop')", "cp(source='loop', destination='loop')"]]
    entry = {
        "id": row.id,
        "initial_config": row.initial_config,
        "involved_classes": list(row.involved_classes),
    }
    (theirs,) = oracle.ask(
        "multi_turn_check", [{"id": row.id, "entry": entry, "turns": [truth], "ground_truth": truth}]
    )
    assert crashed(theirs)
    assert theirs["crash"].startswith("RecursionError")
    ours = check_multi_turn([truth], _with_truth(row, truth))
    assert (ours.valid, ours.error_type) == (False, "multi_turn:instance_state_mismatch")


def test_threads_and_attempts_share_no_state(rows: list[Row], mutants: list[tuple[Row, str, Episode]]) -> None:
    """The same episodes in many threads at once, each twice in a row, equal a serial play of each on fresh simulators."""
    some = mutants[:60]
    serial = [_played(row, episode) for row, _, episode in some]
    work = [(row, episode) for row, _, episode in some * 4]
    random.Random(5).shuffle(work)
    expected = {(row.id, repr(episode)): played for (row, _, episode), played in zip(some, serial, strict=True)}
    with ThreadPoolExecutor(16) as threads:
        for (row, episode), played in zip(work, threads.map(lambda pair: _played_twice(*pair), work), strict=True):
            assert played == expected[row.id, repr(episode)]


def _played_twice(row: Row, episode: Episode) -> tuple[Any, ...]:
    _played(row, episode)
    return _played(row, episode)


def _played(row: Row, episode: Episode) -> tuple[Any, ...]:
    simulation = Simulation(row)
    results = [(simulation.run(step), simulation.state_digest()) for turn in episode for step in turn]
    return results, check_multi_turn(episode, row), check_multi_turn_strict(episode, row)
