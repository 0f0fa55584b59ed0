// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/node.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {

/// Which epoch an iterator runs and how.
struct IterateOptions {
  /// At least 0; unset: the next one by the dataset's own count. An iterator with a given epoch does not take
  /// part in that count.
  std::optional<std::int64_t> epoch = {};
  /// The base seed; unset: `Options::seed`, else one that the dataset draws once.
  std::optional<std::uint64_t> seed = {};
  bool stream_only = false;  ///< use the sequential path even where there is a plan
  /// Gather batches into page-locked memory, from which an accelerator copies by itself. For `Dataset` only:
  /// a distributed dataset copies its batches to the devices.
  bool pin_memory = false;
  /// What must be equal on all processes besides what the library compares, under the names that the error
  /// uses. Compared before the first step, in this order; for a distributed dataset of several processes
  /// only.
  std::vector<std::pair<std::string, std::string>> facts = {};
};

/// An iterator over one epoch of a dataset. One thread at a time. An exception from `next` is thrown again by
/// every later `next`; the position stays before the element that failed, and `save` still works. An
/// interrupt (`InterruptScope`) ends one call only. An iterator that was made before a fork throws
/// FailedPreconditionError in the child.
class TDI_API DatasetIterator final : public Iterator {
 public:
  struct Impl;  ///< private to the library
  explicit DatasetIterator(std::unique_ptr<Impl> impl);
  ~DatasetIterator() override;
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;

  /// The next element, or nullopt at the end. Its memory is the caller's: later calls do not change it.
  std::optional<Element> next() override;
  /// The pipeline's identity, its seed and epoch, and the position after the element last returned.
  State save() const override;
  /// Goes to a saved position, its epoch and its seed. Throws c10::ValueError for a state of another pipeline
  /// (naming what differs), of another kind of object, of a version that this library cannot read, or that is
  /// damaged.
  void load(const State& state) override;
  /// Counts since this iterator was opened.
  Stats stats() const;
  /// The epoch that this iterator runs, at least 0.
  std::int64_t epoch() const;
  /// Stops read-ahead and frees its memory. `next` and `load` then throw FailedPreconditionError; `save`
  /// still returns the last position. Waits for users' code that is running, but for at most `timeout`: code
  /// that does not look at `cancelled` goes on, and what it uses must live until it returns. To destroy an
  /// iterator that was not closed waits for it.
  void close(std::chrono::milliseconds timeout = kCloseTime);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace torch_distinput
