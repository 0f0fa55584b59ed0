// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "torch_distinput/api.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/optional.h"
#include "torch_distinput/per_replica.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {

/// An iterator over the steps of one epoch of a distributed dataset. One thread at a time. An error of the
/// pipeline is thrown again at each later call; the position stays before the step that failed. The failure
/// or death of another process is a DistributedDatasetError. An interrupt (`InterruptScope`) ends one call
/// only. An iterator that was made before a fork throws FailedPreconditionError in the child.
class TDI_API DistributedIterator {
 public:
  struct Impl;  ///< private to the library
  explicit DistributedIterator(std::unique_ptr<Impl> impl);
  /// Stops read-ahead and tells the other processes that no step follows here.
  ~DistributedIterator();
  DistributedIterator(DistributedIterator&&) noexcept;
  DistributedIterator& operator=(DistributedIterator&&) noexcept;

  /// The next step, or nullopt at the end. With partial-batch handling off, a step that lacks a replica's
  /// part counts as the end; it is not lost: `get_next_as_optional` still returns it. On an accelerator, the
  /// device's current stream waits for the copies; the host does not.
  std::optional<PerReplica> next();
  /// As `next`, but throws OutOfRangeError at the end.
  PerReplica get_next();
  /// As `next`, with the steps that `next` does not return; empty at the end. Throws OutOfRangeError at the
  /// end of data of infinite cardinality, as tf.distribute does.
  Optional get_next_as_optional();

  /// Of the step last returned, valid until the next step or `load`; of a temporary, a copy. Throws
  /// FailedPreconditionError before the first step.
  const StepInfo& step_info() const&;
  StepInfo step_info() const&& { return step_info(); }
  /// The position after the step last returned, never of what was read ahead. Works after an error.
  State save() const;
  /// What `save` returns where this epoch was read from its start and `step` steps were returned, in [0,
  /// number of steps]. Reads no rows. Throws c10::IndexError for another `step`; c10::ValueError where the
  /// rows of steps are not known before they are read, never end, or each replica or process has its own;
  /// and FailedPreconditionError where the processes have not yet agreed on a seed.
  State state_at(std::int64_t step) const;
  /// Goes to a saved position, also one saved with another number of replicas. `state` is what this process
  /// saved, or the list of what all processes saved after the same step: needed where each read files of its
  /// own and their number has changed. Throws c10::ValueError for a state that does not fit, naming what
  /// differs.
  void load(const State& state);
  /// Counts since this iterator was opened.
  Stats stats() const;
  /// Stops read-ahead, frees its memory and tells the other processes that no step follows here. Later calls
  /// of `next` and `load` throw FailedPreconditionError. `timeout` as in `DatasetIterator::close`.
  void close(std::chrono::milliseconds timeout = kCloseTime);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace torch_distinput
