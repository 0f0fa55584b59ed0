// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/scalar_tensor.h>

#include "base/current_poll.h"
#include "base/polling.h"
#include "sources/rows_one_by_one.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

/// A source of int64 scalars that takes itself for one over a network, and notes what it was told and asked.
namespace torch_distinput::fakes {

/// What was announced of a source and read from it. Safe from any thread.
class ReadLog {
 public:
  using Counts = std::map<std::int64_t, std::int64_t>;

  void announce(std::span<const std::int64_t> positions) {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t position : positions) ++announced_[position];
  }
  void read(std::span<const std::int64_t> positions) {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t position : positions) {
      if (++read_[position] > announced_[position]) unannounced_.push_back(position);
    }
    ahead_.push_back(sum(announced_) - sum(read_));
  }

  /// How often each position was announced, or read.
  Counts announced() const { return without_zeros(announced_); }
  Counts read() const { return without_zeros(read_); }
  /// Positions that were read more often than they had been announced.
  std::vector<std::int64_t> unannounced() const {
    const std::lock_guard lock(mutex_);
    return unannounced_;
  }
  /// Positions that were announced and not read, at each read.
  std::vector<std::int64_t> ahead() const {
    const std::lock_guard lock(mutex_);
    return ahead_;
  }

 private:
  static std::int64_t sum(const Counts& counts) {
    std::int64_t all = 0;
    for (const auto& [position, count] : counts) all += count;
    return all;
  }
  Counts without_zeros(const Counts& counts) const {
    const std::lock_guard lock(mutex_);
    Counts result = counts;
    std::erase_if(result, [](const auto& entry) { return entry.second == 0; });
    return result;
  }

  mutable std::mutex mutex_;
  Counts announced_;
  Counts read_;
  std::vector<std::int64_t> unannounced_;
  std::vector<std::int64_t> ahead_;
};

struct RemoteRows {
  std::int64_t size;
  bool remote = true;
  bool dense = true;  ///< rows have a layout
  /// Rows from here on do not arrive (in the time that a test may take).
  std::int64_t lost_from = std::numeric_limits<std::int64_t>::max();
};

/// Row k is the scalar k.
class RemoteRowsPlan final : public Plan {
 public:
  RemoteRowsPlan(const RemoteRows& rows, std::shared_ptr<ReadLog> log)
      : rows_(rows), log_(std::move(log)), layout_{Structure::leaf(), {{at::kLong, {}, 8}}} {}

  std::int64_t size() const override { return rows_.size; }
  PlanTraits traits() const override { return {.remote = rows_.remote}; }
  const RowLayout* layout() const override { return rows_.dense ? &layout_ : nullptr; }
  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    arrive(positions);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto slot = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      std::memcpy(sinks.front().data + slot * sinks.front().row_bytes, &positions[i], sizeof(std::int64_t));
    }
  }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    arrive(positions);
    std::vector<Element> rows;
    for (const std::int64_t position : positions) rows.emplace_back(at::scalar_tensor(position, at::kLong));
    return rows;
  }
  void will_read(std::span<std::int64_t> positions) const override { log_->announce(positions); }

 private:
  void arrive(std::span<const std::int64_t> positions) const {
    log_->read(positions);
    if (std::all_of(positions.begin(), positions.end(), [&](auto row) { return row < rows_.lost_from; }))
      return;
    const auto test_fails = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::unique_lock lock(mutex_);
    wait_polling(never_, lock, current_poll(), [&] { return std::chrono::steady_clock::now() > test_fails; });
  }

  RemoteRows rows_;
  std::shared_ptr<ReadLog> log_;
  RowLayout layout_;
  mutable std::mutex mutex_;
  mutable std::condition_variable never_;
};

class RemoteRowsNode final : public Node {
 public:
  RemoteRowsNode(const RemoteRows& rows, std::shared_ptr<ReadLog> log) : rows_(rows), log_(std::move(log)) {}

  std::string_view name() const override { return "remote_rows"; }
  std::string describe() const override { return "remote_rows(" + std::to_string(rows_.size) + ")"; }
  std::vector<NodePtr> inputs() const override { return {}; }
  NodePtr with_inputs(std::vector<NodePtr>) const override { return shared_from_this(); }
  SpecPtr spec() const override {
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, at::kLong}}});
  }
  std::int64_t cardinality() const override { return rows_.size; }
  PlanPtr plan(const IterContext&) const override { return std::make_shared<RemoteRowsPlan>(rows_, log_); }
  IteratorPtr iterate(const IterContext& context) const override {
    return rows_one_by_one(plan(context), context, "remote_rows");
  }

 private:
  RemoteRows rows_;
  std::shared_ptr<ReadLog> log_;
};

/// `rows` as a dataset that writes to `log`.
inline Dataset remote_rows(const RemoteRows& rows, const std::shared_ptr<ReadLog>& log) {
  return Dataset(std::make_shared<RemoteRowsNode>(rows, log));
}

}  // namespace torch_distinput::fakes
