# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The rows of steps that were taken of data that is read in order."""

from torch_distinput.loader.state._step_log import StepLog


def rows_in(log: StepLog, epoch: int, step: int, rank: int | None, world: int) -> range:
    """The rows of `step` of `epoch` that `log` has, in the order in which they were read.

    Raises IndexError for a rank that does not exist, and ValueError for a step that was not taken, was forgotten, or
    was taken before a state was loaded, and for a rank whose rows the log does not have.
    """
    if rank is not None and rank >= world:
        raise IndexError(f"rows_of: `rank` must be at least 0 and less than {world}, but is {rank}.")
    if world > 1 and log.own_rank is None and rank is not None:
        raise ValueError(
            "rows_of: the rows of steps of data that is read in order are known for all ranks together; leave `rank` "
            "out."
        )
    if world > 1 and log.own_rank is not None and rank != log.own_rank:
        raise ValueError(
            f"rows_of: `rank` must be {log.own_rank}, this process, because each rank reads a stream of its own and "
            f"knows the rows of that only, but is {rank}."
        )
    if not log.first_step <= step < log.next_step:
        raise ValueError(
            f"rows_of: `step` must be at least {log.first_step} and less than {log.next_step}, the steps of epoch "
            f"{epoch} that this loader has taken and still knows, because this data is read in order, but is {step}."
        )
    return log.rows(step)
