// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "runtime/mix_keys.h"
#include "runtime/permutation.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 62;
constexpr std::int64_t kWidestWindow = std::int64_t{1} << 61;
constexpr std::size_t kLongestRun = 256;

/// Number of the window that holds `position`. The first window of stage 1 is half a window long.
std::int64_t window_number(std::int64_t window, int stage, std::int64_t position) {
  const std::int64_t shift = stage == 0 ? 0 : window - window / 2;
  return (position + shift) / window;
}

}  // namespace

/// One window of one stage, cut at n, with its permutation.
class WindowedPermutation::Window {
 public:
  Window(const WindowedPermutation& all, int stage, std::int64_t position)
      : begin_(window_begin(all.window_, stage, position)),
        end_(std::min(all.size_, window_end(all.window_, stage, position))),
        permutation_(end_ - begin_, window_key(all.key_, all.window_, stage, position)) {}

  std::int64_t end() const { return end_; }
  bool holds(std::int64_t position) const { return begin_ <= position && position < end_; }

  std::int64_t operator()(std::int64_t position) const { return begin_ + permutation_(position - begin_); }

  void apply(std::span<std::int64_t> positions) const {
    for (std::int64_t& position : positions) position -= begin_;
    permutation_.apply(positions);
    for (std::int64_t& position : positions) position += begin_;
  }

 private:
  std::int64_t begin_;
  std::int64_t end_;
  Permutation permutation_;
};

WindowedPermutation::WindowedPermutation(std::int64_t n, std::int64_t window, std::uint64_t key)
    : size_(n), window_(window), key_(key) {
  if (n < 0 || n > kMaxRows) {
    throw std::invalid_argument("windowed_permutation: `n` must be within [0, 2^62], but is " +
                                std::to_string(n) + ".");
  }
  if (window < 1 || window > kWidestWindow) {
    throw std::invalid_argument("windowed_permutation: `window` must be within [1, 2^61], but is " +
                                std::to_string(window) + ".");
  }
}

std::int64_t WindowedPermutation::operator()(std::int64_t position) const {
  const std::int64_t between = Window(*this, 1, position)(position);
  return Window(*this, 0, between)(between);
}

void WindowedPermutation::apply(std::span<std::int64_t> positions) const {
  while (!positions.empty()) {
    const std::int64_t begin = window_begin(window_, 1, positions.front());
    const std::int64_t end = window_end(window_, 1, positions.front());
    std::size_t count = 1;
    const std::size_t most = std::min(positions.size(), kLongestRun);
    while (count < most && begin <= positions[count] && positions[count] < end) ++count;
    apply_run(positions.first(count));
    positions = positions.subspan(count);
  }
}

void WindowedPermutation::apply_run(std::span<std::int64_t> run) const {
  const Window shifted(*this, 1, run.front());
  shifted.apply(run);
  // A shifted window overlaps at most two windows of stage 0: the positions in each are permuted as one
  // batch.
  const Window left(*this, 0, *std::min_element(run.begin(), run.end()));
  std::array<std::int64_t, kLongestRun> parts;
  std::size_t in_left = 0;
  std::size_t right_begin = run.size();
  std::array<std::size_t, kLongestRun> place;
  for (std::size_t i = 0; i < run.size(); ++i) {
    place[i] = left.holds(run[i]) ? in_left++ : --right_begin;
    parts[place[i]] = run[i];
  }
  left.apply(std::span(parts).first(in_left));
  if (in_left < run.size()) {
    const std::span<std::int64_t> right = std::span(parts).subspan(in_left, run.size() - in_left);
    Window(*this, 0, right.front()).apply(right);
  }
  for (std::size_t i = 0; i < run.size(); ++i) run[i] = parts[place[i]];
}

std::int64_t WindowedPermutation::window_begin(std::int64_t window, int stage,
                                               std::int64_t position) noexcept {
  const std::int64_t shift = stage == 0 ? 0 : window - window / 2;
  return std::max<std::int64_t>(0, window_number(window, stage, position) * window - shift);
}

std::int64_t WindowedPermutation::window_end(std::int64_t window, int stage, std::int64_t position) noexcept {
  const std::int64_t shift = stage == 0 ? 0 : window - window / 2;
  return (window_number(window, stage, position) + 1) * window - shift;
}

std::uint64_t WindowedPermutation::window_key(std::uint64_t key, std::int64_t window, int stage,
                                              std::int64_t position) noexcept {
  const auto number = static_cast<std::uint64_t>(window_number(window, stage, position));
  return mix_keys(key, 2 * number + static_cast<std::uint64_t>(stage));
}

}  // namespace torch_distinput
