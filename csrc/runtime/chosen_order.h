// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "runtime/input_order.h"

namespace torch_distinput {

/// An order that was written down: a list of inputs. A choice takes 1, 2 or 4 bytes, as the number of inputs
/// needs, and what lies before every stride-th choice is counted, which takes at most another byte a choice.
/// `locate` looks through the choices of one stride: 256 of them, or 8 for each input if there are more than
/// 32. Filled by one thread, then read by any.
class ChosenOrder final : public InputOrder {
 public:
  /// REQUIRES: 1 <= `inputs` < 2^32.
  explicit ChosenOrder(std::size_t inputs);

  /// Input `input` is chosen next.
  void push(std::size_t input);

  /// The number of choices.
  std::int64_t size() const { return size_; }
  /// How often `input` was chosen.
  std::int64_t chosen(std::size_t input) const { return chosen_[input]; }

  /// REQUIRES, here and below: positions in [0, size()); `counts` also knows size().
  Place locate(std::int64_t position) const override;
  void locate_run(std::int64_t position, std::int64_t count, const Take& take) const override;
  std::vector<std::int64_t> counts(std::int64_t position) const override;

 private:
  using Choices =
      std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>>;
  static Choices choices_for(std::size_t inputs);

  /// What lies before the stride of `position`, one entry for each input.
  std::span<const std::int64_t> counts_before_stride(std::int64_t position) const;
  std::int64_t stride_of(std::int64_t position) const { return position - position % stride_; }

  Choices choices_;
  std::int64_t stride_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> chosen_;          ///< one entry for each input
  std::vector<std::int64_t> before_strides_;  ///< `chosen_` at the begin of each stride
};

}  // namespace torch_distinput
