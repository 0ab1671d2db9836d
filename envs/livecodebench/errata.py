"""Problems that upstream's own errata names: scores are always shown with and without them (spec 1.10)."""

SEVERAL_ANSWERS = (
    "abc311_c", "abc326_d", "abc327_b", "abc333_e", "abc343_a", "abc343_e", "abc362_c", "arc185_c",
    "3194",  # find-words-containing-character
    "3221",  # find-the-peaks
    "3453",  # generate-binary-strings-without-adjacent-zeros
)  # fmt: skip
"""Several outputs are right, and the tests know one."""

INTERACTIVE = ("abc337_e", "abc355_e")
"""The judge has to answer the program."""

BAD_TESTS = (
    "abc350_c", "arc189_a",
    "3308",  # apply-operations-to-make-string-empty
    "3363",  # most-frequent-ids
)  # fmt: skip
"""A test is wrong."""

ERRATA = frozenset((*SEVERAL_ANSWERS, *INTERACTIVE, *BAD_TESTS))
