"""Options from a file and from flags."""

from pathlib import Path

import pytest

from harness.config import EvalOptions, operational, read_options, recorded
from trajectories.failures import InputError


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_flags_win_over_the_file_and_the_file_over_what_was_recorded(tmp_path: Path) -> None:
    path = config(tmp_path, 'agent = "a"\nbenchmark = ["b", "c"]\nseed = 1\nmax-steps = 4\n')
    options = read_options(path, {"seed": 2}, {"seed": 0, "attempts": 3, "max_steps": 9})
    assert options == EvalOptions(agent=("a",), benchmark=("b", "c"), seed=2, max_steps=4, attempts=3)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://key@host/v1?api-version=3", "https://host/v1"),
        ("https://me:p@ss@[::1]:8000/a@b/v1#x", "https://[::1]:8000/a@b/v1"),
    ],
)
def test_what_a_run_keeps_of_an_endpoint_is_no_secret(url: str, shown: str) -> None:
    options = read_options(None, {"base_url": url})
    assert recorded(options)["base_url"] == operational(options)["base_url"] == shown
    assert "output" not in recorded(options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sed = 1", r"Unknown key in '.*run.toml': 'sed'. Did you mean 'seed'\?"),
        ('seed = "one"', r"--seed can't be 'one' in '.*': input should be a valid integer"),
        ("seed = -1", r"--seed can't be -1 in '.*': input should be greater than or equal to 0"),
        ("attempts = 0", r"--attempts can't be 0"),
        ('mode = "both"', r"--mode can't be 'both' in '.*': input should be 'prompt' or 'fc'"),
        ("top_p = 1.5", r"--top-p can't be 1.5"),
        ("temperature = nan", r"--temperature can't be nan"),
        ("seed = ", r"is no TOML"),
        ("[eval]\nseed = 1", r"Unknown key in '.*': 'eval'"),
    ],
)
def test_a_bad_file_is_refused_in_a_sentence_that_names_key_value_and_rule(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        read_options(config(tmp_path, text), {})


def test_a_bad_flag_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--limit can't be -3: "):
        read_options(config(tmp_path, "seed = 1"), {"limit": -3})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.toml' can't be read: No such file"):
        read_options(tmp_path / "nowhere.toml", {})
