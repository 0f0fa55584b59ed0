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
  /// false: hand out steps without their rows, which are not read: their infos, with parts that are `None`,
  /// and the positions after them, from which an iterator with rows goes on, too. For a distributed dataset
  /// whose rows all processes share and know before they are read, else c10::ValueError; all processes that
  /// rows are dealt to must do it.
  bool with_rows = true;
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
  /// From element `element` on (unset: the next one), the datasets of the pipeline's `sample_from_datasets`
  /// have these weights, to the end of the epoch, instead of those of its schedule. What was read ahead is
  /// read again. The position keeps the change. Throws c10::ValueError for wrong weights, where there is no
  /// mixture and where its elements before `element` are not known.
  void set_weights(std::vector<double> weights, std::optional<std::int64_t> element = {});
  /// From the next element on, to the end of the epoch, leaves out the rows `rows` of the sources, numbered
  /// as in `RowLedger`: batches are filled with the rows that follow, and an element made of several rows is
  /// left out with any of them. What was read ahead is read again. The position keeps the change. Throws
  /// c10::ValueError for rows out of range, without random access, and where an op after batching moves or
  /// joins batches.
  void exclude(std::vector<std::int64_t> rows);
  /// A position, for `load`, before element `element` of this epoch. Throws c10::ValueError without random
  /// access, c10::IndexError for an element beyond the end.
  State state_at(std::int64_t element) const;
  /// Elements that are left, where they are read over a network and by position; else unset, also where they
  /// never end.
  std::optional<std::int64_t> remote_elements_left() const;
  /// Begins to read what comes over a network before the first `next` asks for it. Does not wait, and hands
  /// out nothing: to drop the iterator loses nothing.
  void begin_reading();
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
