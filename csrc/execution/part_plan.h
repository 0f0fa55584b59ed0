// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// A plan whose elements are those of several plans, the parts. A subclass says where each element is;
/// requests are split and forwarded.
class PartPlan : public Plan {
 public:
  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const final;
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override;
  std::string origin(std::int64_t position) const final;
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const final;
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const final;
  std::int64_t rows(std::int64_t position) const override;
  Element take_rows(std::span<const Segment> segments) const final;
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const final;
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const final;
  /// Of the part that holds the element before `position`.
  std::vector<std::int64_t> sampled(std::int64_t position) const override;
  void will_read(std::span<std::int64_t> positions) const final;
  void will_take(std::span<const Segment> segments) const final;

 protected:
  /// Element `position` of part `part`.
  struct Place {
    std::int64_t part;
    std::int64_t position;
  };
  /// The place of element `position` of the whole.
  virtual Place locate(std::int64_t position) const = 0;
  /// Part `index`, as `locate` names it. Safe from any thread, as every method of a plan.
  virtual PlanPtr part(std::int64_t index) const = 0;
  /// The number of the first source row of part `index`.
  virtual std::int64_t first_source_row(std::int64_t index) const = 0;

  /// Gets positions of `part` (scratch) and the slots of their elements; no slots: 0, 1, 2, ...
  using Forward = std::function<void(const Plan& part, std::span<std::int64_t> positions,
                                     std::span<const std::int64_t> slots)>;
  /// Calls `forward` for each part that `positions` (scratch) touch. `slots` as in `gather`. The default: for
  /// parts that lie one after the other, so that places increase with positions.
  virtual void split(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                     const Forward& forward) const;
  /// The same, for parts that lie in any order.
  void split_by_place(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                      const Forward& forward) const;

 private:
  using ForwardSegments = std::function<void(const Plan& part, std::span<const Segment> segments)>;
  /// Calls `forward` once for each run of `segments` that are of one part.
  void split(std::span<const Segment> segments, const ForwardSegments& forward) const;
};

}  // namespace torch_distinput
