"""Untrusted code in a jail: `pool.open_pool` gives workers, `worker.Worker` runs programs, calls and sessions in one.

What is promised is listed in `promises.py`, where each promise is a probe that `harness sandbox check` runs.
"""
