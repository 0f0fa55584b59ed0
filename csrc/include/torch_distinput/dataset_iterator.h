// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/node.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {

/// Which epoch an iterator runs and how; unset fields follow the dataset's own
/// count of epochs and its seed.
struct IterateOptions {
  std::optional<std::int64_t> epoch = {};
  std::optional<std::uint64_t> seed = {};
  bool stream_only = false;  ///< use the sequential path even where there is a plan
  /// Gather batches into page-locked memory, from which an accelerator copies by itself. For `Dataset` alone:
  /// a distributed dataset brings its batches to the devices.
  bool pin_memory = false;
};

/// An iterator over a dataset: iterates, saves, loads. One thread at a time. An
/// exception from `next` is raised again by every later `next`; the position
/// stays before the element that failed, and `save` still works.
class TDI_API DatasetIterator final : public Iterator {
 public:
  struct Impl;
  explicit DatasetIterator(std::unique_ptr<Impl> impl);
  ~DatasetIterator() override;
  DatasetIterator(DatasetIterator&&) noexcept;
  DatasetIterator& operator=(DatasetIterator&&) noexcept;

  std::optional<Element> next() override;
  /// Names the pipeline, its seed and epoch, and the position.
  State save() const override;
  /// Throws c10::ValueError for a state of another pipeline (naming what
  /// differs), of another kind of object, or of a newer version.
  void load(const State& state) override;
  Stats stats() const;
  std::int64_t epoch() const;
  /// Stops read-ahead and frees it; `next` then throws FailedPreconditionError.
  void close();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace torch_distinput
