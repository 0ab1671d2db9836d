"""How much one submission may use."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from trajectories.failures import InputError

SOURCE_BYTES = 256 * 1024
"""A longer source is not run: status `error`."""

MOST_OUTPUT_BYTES = 1 << 27
"""What a frame holds for certain."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Each number is a ceiling that the jail enforces; passing it ends the submission with the status named."""

    wall_s: float = 10.0
    """Seconds by the supervisor's clock: of a whole program, or of one call. `time_limit`."""
    cpu_s: float | None = None
    """CPU seconds of the submission's main process, all calls together, rounded up to whole seconds by the kernel. None: no limit of its own. `time_limit`."""
    memory_mib: int = 1024
    """MiB that one process may map beyond the bare interpreter, and that all together may hold. `memory_limit`, or a MemoryError."""
    processes: int = 32
    """Processes and threads at any one time. The code gets an error from the system."""
    open_files: int = 64
    """Descriptors of one process. The code gets an error from the system."""
    file_mib: float = 16.0
    """MiB of one file. The code gets an error from the system."""
    output_bytes: int = 1 << 20
    """Bytes of a program's standard output, or of one call's encoded result. `output_limit`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise InputError(f"A sandbox limit has to be above zero, and {field.name} is {value!r}.")

    def require_within(self, ceiling: "Limits") -> None:
        """InputError where a jail that was built for `ceiling` can't give this."""
        if self.output_bytes > MOST_OUTPUT_BYTES:
            raise InputError(
                f"An output has {MOST_OUTPUT_BYTES} bytes at most, and output_bytes={self.output_bytes} are asked for."
            )
        for name in ("memory_mib", "processes", "open_files", "file_mib"):
            wanted, most = getattr(self, name), getattr(ceiling, name)
            if wanted > most:
                raise InputError(
                    f"The sandbox was opened for at most {name}={most}, and {wanted} are asked for: raise its ceiling."
                )

    def on_wire(self) -> dict[str, Any]:
        return asdict(self)


DEFAULT = Limits()
