"""A pool of each kind of jail: see `jails`."""

from jails import pool, worker

__all__ = ["pool", "worker"]
