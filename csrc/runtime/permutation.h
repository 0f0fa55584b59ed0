// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace torch_distinput {

/// Stored in saved states: another version draws other orders, so states of it cannot be restored.
inline constexpr int kPermutationVersion = 1;

/// An unbalanced Feistel network on [0, 2^k), the smallest such domain that holds [0, size). Halves have at
/// most 31 bits, so all arithmetic is 32 bits wide.
struct FeistelNetwork {
  static constexpr int kMaxRounds = 24;

  std::uint64_t size = 0;
  std::uint32_t high_mask = 0;
  std::uint32_t low_mask = 0;
  int low_bits = 0;
  int rounds = 0;
  std::array<std::uint32_t, kMaxRounds> keys{};
};

/// A keyed bijection on [0, n), from positions in the shuffled order to rows. It takes O(1) memory and is the
/// same on every machine. Immutable; safe from any thread.
class Permutation {
 public:
  /// Throws std::invalid_argument unless 0 <= `n` <= 2^62.
  Permutation(std::int64_t n, std::uint64_t key);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(network_.size); }

  /// The row at `position`. REQUIRES: 0 <= `position` < size().
  std::int64_t operator()(std::int64_t position) const noexcept;

  /// Replaces every position by its row: the same results as one by one, several times faster on a batch.
  /// REQUIRES: all in [0, size()).
  void apply(std::span<std::int64_t> positions) const noexcept;

 private:
  FeistelNetwork network_;
};

/// A shuffle in two stages: inside the windows [k w, (k + 1) w), then inside windows shifted by h = w / 2
/// (rounded down), that is [0, h), [h, h + w), ...; the last ones end at n. Maps an output position to its
/// source row, which is at most w + (w + 1) / 2 - 1 places away. A window of 1 is the identity.
///
/// Window number m of stage s (0 or 1) is permuted by `Permutation(rows in it, window_key(...))`, so the
/// sequential path, which may not know the length, produces the same order one window at a time, stage 0
/// first. Immutable; safe from any thread.
class WindowedPermutation {
 public:
  /// Throws std::invalid_argument unless 0 <= `n` <= 2^62 and 1 <= `window` <= 2^61.
  WindowedPermutation(std::int64_t n, std::int64_t window, std::uint64_t key);

  std::int64_t size() const noexcept { return size_; }
  std::int64_t window() const noexcept { return window_; }

  /// The row at `position`. REQUIRES: 0 <= `position` < size().
  std::int64_t operator()(std::int64_t position) const;

  /// Replaces every position by its row. Fastest where consecutive positions lie in the same window.
  /// REQUIRES: all in [0, size()).
  void apply(std::span<std::int64_t> positions) const;

  /// The window of `stage` that holds `position` is [window_begin, window_end), before it is cut at n.
  static std::int64_t window_begin(std::int64_t window, int stage, std::int64_t position) noexcept;
  static std::int64_t window_end(std::int64_t window, int stage, std::int64_t position) noexcept;

  /// The key of that window's permutation: `mix_keys(key, 2 * m + stage)`.
  static std::uint64_t window_key(std::uint64_t key, std::int64_t window, int stage,
                                  std::int64_t position) noexcept;

 private:
  class Window;
  void apply_run(std::span<std::int64_t> run) const;

  std::int64_t size_;
  std::int64_t window_;
  std::uint64_t key_;
};

}  // namespace torch_distinput
