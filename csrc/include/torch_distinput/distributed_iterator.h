// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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

  /// Takes the next step as another process with the same rows has taken it, in place of `next`, and reads no
  /// rows: `info` is of its step, unset at the end, and `after` is its position then. `next` goes on from
  /// there. Throws as `next` does for what other processes do; c10::ValueError for a position that does not
  /// fit, and where processes have streams of their own or rows may be skipped.
  void follow(const std::optional<StepInfo>& info, const State& after);

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
  /// From step `step` on (unset: the next one), the datasets of the pipeline's `sample_from_datasets` have
  /// these weights, to the end of the epoch, instead of those of its schedule. What was read ahead is read
  /// again. The position keeps the change. Call it on all processes after the same step: where they differ,
  /// the next step throws DistributedDatasetError. Throws c10::ValueError for wrong weights or an earlier
  /// step, where there is no mixture, where its elements before `step` are not known, and where replicas or
  /// processes read their own.
  void set_weights(std::vector<double> weights, std::optional<std::int64_t> step = {});
  /// From the next step on, to the end of the epoch, leaves out the rows `rows` of the sources, numbered as
  /// in `RowLedger`: steps are filled with the rows that follow, and an element made of several rows is left
  /// out with any of them. What was read ahead is read again. The position keeps the change. Call it on all
  /// processes after the same step: where they differ, the next step throws DistributedDatasetError. Throws
  /// c10::ValueError for rows out of range, without random access, where an op after batching moves or joins
  /// batches, and where replicas or processes read their own.
  void exclude(std::vector<std::int64_t> rows);
  /// Whether the steps of this iterator come over a network and are read by position. False before the first.
  bool is_remote() const;
  /// Begins to read what comes over a network, by position, before the first `next` asks for it. Does not
  /// wait, speaks to no other process, starts no users' code and no copy to a device, and hands out nothing:
  /// to drop the iterator loses nothing. Where processes agree on each step, it reads nothing. `seed`: on
  /// which the processes will agree; what was read with another one is read again.
  void begin_reading(std::uint64_t seed);
  /// Whether an error has ended this iterator: `next` throws it again, unless a position is loaded.
  bool failed() const noexcept;
  /// Counts since this iterator was opened.
  Stats stats() const;
  /// Stops read-ahead, frees its memory and tells the other processes that no step follows here. Later calls
  /// of `next` and `load` throw FailedPreconditionError. `timeout` as in `DatasetIterator::close`.
  void close(std::chrono::milliseconds timeout = kCloseTime);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace torch_distinput
