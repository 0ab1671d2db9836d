"""LiveCodeBench: contest problems, written by models as programs, graded by running them in the sandbox."""
