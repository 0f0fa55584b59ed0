// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/rows.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// A source of scalars of type T, by position: a subclass finds them.
template <class T>
class ScalarsPlan : public Plan {
 public:
  ScalarsPlan(std::int64_t size, std::shared_ptr<BufferPool> pool)
      : size_(size),
        pool_(std::move(pool)),
        layout_{Structure::leaf(), {{c10::CppTypeToScalarType<T>::value, {}, sizeof(T)}}} {}

  std::int64_t size() const final { return size_; }
  const RowLayout* layout() const final { return &layout_; }
  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const final {
    std::vector<T> values(positions.size());
    find(positions, values);
    const RowSink& sink = sinks.front();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t row = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      std::memcpy(sink.data + row * sink.row_bytes, &values[i], sizeof(T));
    }
  }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const final {
    std::vector<Element> elements;
    for (std::int64_t& position : positions) {
      BatchBuffer one = make_batch(layout_, 1, *pool_);
      gather({&position, 1}, {}, one.sinks);
      elements.push_back(take_row(one.element, 0, "scalars"));
    }
    return elements;
  }

 private:
  /// Writes the scalars at `positions` (scratch) to `values`.
  virtual void find(std::span<std::int64_t> positions, std::span<T> values) const = 0;

  std::int64_t size_;
  std::shared_ptr<BufferPool> pool_;
  RowLayout layout_;
};

}  // namespace torch_distinput
