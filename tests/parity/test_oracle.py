"""The oracle itself: what the parity tests rest on."""

import pytest
import wire
from oracle import Oracle, crashed


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.0,
        "é\ud800",
        [1, (2, "x")],
        {"a": {1: 2}},
        {"$": 1},
        b"\x00",
        1j,
        10**400,
        float("-inf"),
        {1, 2},
    ],
)
def test_values_come_back_with_their_types(value: object) -> None:
    back = wire.loads(wire.dumps(value))
    assert repr(back) == repr(value)


def test_upstream_answers_and_its_exceptions_are_named(oracle: Oracle) -> None:
    good, bad = oracle.ask("decode_ast", [{"text": "[f(a=(1, 2))]"}, {"text": "f("}])
    assert good == [{"f": {"a": (1, 2)}}]
    assert crashed(bad)
    assert bad["crash"].startswith("SyntaxError")
    assert oracle.spent["decode_ast"] > 0


def test_a_known_answer_passes_and_a_wrong_one_has_upstreams_error_type(oracle: Oracle) -> None:
    right = [{"calculate_triangle_area": {"base": 10, "height": 5}}]
    wrong = [{"calculate_triangle_area": {"base": "10", "height": 5}}]
    items = [{"id": "simple_0", "decoded": decoded} for decoded in (right, wrong)]
    assert oracle.ask("ast_check", items) == [[True, None], [False, "type_error:simple"]]


def test_multi_turn_state_never_leaks_from_one_item_to_the_next(oracle: Oracle) -> None:
    item = {"id": "multi_turn_base_0", "steps": [["mkdir(dir_name='twice')"], ["pwd()"]]}
    first, second = oracle.ask("execute_multi_turn", [item, item])
    assert first == second
    assert "GorillaFileSystem" in first["state"]


def test_an_empty_agent_has_the_floor_of_the_leaderboard(oracle: Oracle) -> None:
    scores = {
        name: {"accuracy": 1.0, "total_count": n} for name, n in [("irrelevance", 240), ("live_irrelevance", 882)]
    }
    (board,) = oracle.ask("aggregate", [{"scores": scores}])
    assert board["data_overall.csv"]["Overall Acc"] == "19.73%"
