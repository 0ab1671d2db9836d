"""The command line, the runner and what closes the loop. Importing it checks that our top-level packages are ours."""

import importlib.util
from pathlib import Path

_PACKAGES = ("agents", "envs", "evaluators", "trajectories")


def _check_shadowing() -> None:
    """ImportError, in one sentence, where another distribution has a top-level package of one of our names."""
    here = Path(__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or Path(spec.origin).resolve().parent != here / name:
            found = spec.origin if spec else None
            raise ImportError(
                f"The package {name!r} of lopd-harness is shadowed by {found}: another distribution (such as openai-agents) "
                "or a folder of that name comes first; install lopd-harness in an environment of its own, or start it elsewhere."
            )


_check_shadowing()
