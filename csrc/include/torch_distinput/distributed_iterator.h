// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "torch_distinput/api.h"
#include "torch_distinput/optional.h"
#include "torch_distinput/per_replica.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {

/// An iterator over the steps of a distributed dataset. One thread at a time.
/// Errors of the pipeline are raised again at each call; the position stays
/// before the step that failed.
class TDI_API DistributedIterator {
 public:
  struct Impl;
  explicit DistributedIterator(std::unique_ptr<Impl> impl);
  ~DistributedIterator();
  DistributedIterator(DistributedIterator&&) noexcept;
  DistributedIterator& operator=(DistributedIterator&&) noexcept;

  /// The next step, or nullopt at the end. With partial-batch handling off, a
  /// step that lacks a replica's part counts as the end; it is not lost:
  /// `get_next_as_optional` still returns it.
  std::optional<PerReplica> next();
  /// As `next`, but throws OutOfRangeError at the end.
  PerReplica get_next();
  /// Every step, also one that `next` would not deliver.
  Optional get_next_as_optional();

  /// Of the step last handed out; throws FailedPreconditionError before the first.
  const StepInfo& step_info() const;
  State save() const;
  void load(const State& state);
  Stats stats() const;
  void close();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace torch_distinput
