// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/iterator_shell.h"
#include "execution/excluded_rows.h"
#include "execution/open.h"
#include "runtime/mixture_order.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// Which epoch of which pipeline an iterator runs, and how: `IterateOptions` with every field decided.
struct EpochRun {
  NodePtr node;
  std::int64_t epoch;
  std::uint64_t seed;  ///< base seed
  bool stream_only;
  bool pin_memory;
};

/// `DatasetIterator` without its public face; methods as documented there.
struct DatasetIterator::Impl {
 public:
  /// Opens the iterator. `epochs` is the count that it takes part in; null: none.
  Impl(EpochRun run, std::shared_ptr<EpochCount> epochs);

  std::optional<Element> next();
  State save() const;
  void load(const State& state);
  void set_weights(std::vector<double> weights, std::optional<std::int64_t> element);
  void exclude(std::vector<std::int64_t> rows);
  State state_at(std::int64_t element) const;
  std::optional<std::int64_t> remote_elements_left() const;
  void begin_reading();
  Stats stats() const { return shell_.stats(); }
  void close(std::chrono::milliseconds timeout);
  std::int64_t epoch() const noexcept { return run_.epoch; }

 private:
  /// A position of the sequential path that is known to be good, and how many elements were handed out since.
  /// After an error or an interrupt this is the position, because the iterator's own is unspecified.
  struct Checkpoint {
    State position;
    std::int64_t elements_since = 0;
    std::chrono::steady_clock::time_point time;
  };

  void open();
  std::optional<Element> next_of_stream();
  void recover();

  PlanPtr plan() const;
  std::int64_t next_element(const char* call) const;
  std::int64_t drawn_before(std::optional<std::int64_t> element) const;
  State state_with(const State& position) const;

  EpochRun run_;
  NodePtr read_;  ///< the pipeline of `run_` without the excluded rows
  std::vector<WeightsFromPosition> changed_weights_;
  std::vector<ExcludedRows> excluded_;
  IteratorShell shell_;
  OpenedIterator iterator_;
  bool batched_;
  bool suspect_ = false;  ///< `iterator_` is not at the position that the user has reached
  Checkpoint checkpoint_;
  State closed_at_;
};

}  // namespace torch_distinput
