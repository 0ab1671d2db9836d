"""Official result files of a peer, as they are: our verdicts against our own run of the wheel's graders on the same rows."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs.bfcl.v4 import v3_id
from harness.grade import grade
from trajectories.failures import InputError

pytestmark = pytest.mark.usefixtures("bfcl_data")


def result_files(data: Path) -> list[Path]:
    return sorted((data / "bfcl").rglob("*_result.json.gz"))


def upstream_verdicts(oracle: Any, rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """[valid, error type] of the wheel's runner for a function-calling model whose names have underscores for dots."""
    for row in rows:
        task_id = v3_id(row["id"])
        category = task_id.rsplit("_", 1)[0]
        item = {"id": task_id, "category": category, "result": row["result"], "native": True, "model": "u2d"}
        (verdict,) = oracle.ask("relevance" if "relevance" in category else "grade_ast", [item])
        yield verdict


def test_every_single_turn_file_gets_the_wheels_verdicts(oracle: Any, shared_data: Path) -> None:
    compared = 0
    for path in result_files(shared_data):
        if "multi_turn" in path.name:
            continue
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        out = io.StringIO()
        grade("bfcl-v3", path, out, options={})
        ours = [json.loads(line) for line in out.getvalue().splitlines()]
        assert [row["task_id"] for row in ours] == [row["id"] for row in rows]
        verdicts = [[row["passed"], row["detail"]["error_type"]] for row in ours]
        assert verdicts == list(upstream_verdicts(oracle, rows)), path.name
        compared += len(rows)
    assert compared == 417


def test_every_v4_multi_turn_file_is_refused_in_one_sentence(shared_data: Path) -> None:
    refused = [path for path in result_files(shared_data) if "multi_turn" in path.name]
    assert len(refused) == 4
    for path in refused:
        with pytest.raises(InputError, match="multi-turn results of BFCL v4: other tasks than v3's"):
            grade("bfcl-v3", path, io.StringIO(), options={})
