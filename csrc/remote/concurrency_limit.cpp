// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/concurrency_limit.h"

#include <algorithm>

namespace torch_distinput {
namespace {

/// Twice as many requests must bring so much more, and a quarter more of them so much.
constexpr double kWorthDoubling = 1.15;
constexpr double kWorthTrying = 1.03;
constexpr double kCut = 0.7;
/// A request that ends well makes up for so much of one that is refused: a server that refuses fewer than one
/// in twenty is not overloaded, but has errors.
constexpr double kMadeUp = 0.05;
/// So many refused ones are an overload.
constexpr double kOverload = 3;
/// Cuts that follow sooner answer to the same overload.
constexpr Nanos kOneOverload = 100 * kMillisecond;
/// After so many windows a few more requests are tried.
constexpr int kWindowsBetweenAttempts = 6;
/// A window is as long as so many requests one after the other.
constexpr double kRequestsOfWindow = 6;
constexpr double kLeastWindow = 50.0 * kMillisecond;
constexpr double kMostWindow = 2.0 * kSecond;
constexpr double kWeight = 0.1;

}  // namespace

void ConcurrencyLimit::note_demand(int running, bool wanted) noexcept {
  if (!wanted && running < limit()) was_full_ = false;
}

void ConcurrencyLimit::finished(Nanos time) noexcept {
  const auto measured = static_cast<double>(time);
  average_time_ = average_time_ == 0 ? measured : (1 - kWeight) * average_time_ + kWeight * measured;
  refused_ = std::max(0.0, refused_ - kMadeUp);
}

void ConcurrencyLimit::received(std::uint64_t bytes, Nanos now) noexcept {
  if (changed_ < 0) changed_ = now;
  if (window_began_ < 0) {
    // The requests that began under the limit before are let end first.
    if (static_cast<double>(now - changed_) < average_time_ || average_time_ == 0) return;
    window_began_ = now;
    bytes_ = 0;
    was_full_ = true;
    return;
  }
  bytes_ += bytes;
  const double window = std::clamp(kRequestsOfWindow * average_time_, kLeastWindow, kMostWindow);
  if (static_cast<double>(now - window_began_) >= window) end_window(now);
}

void ConcurrencyLimit::end_window(Nanos now) noexcept {
  const double goodput =
      static_cast<double>(bytes_) * kSecond / static_cast<double>(std::max<Nanos>(now - window_began_, 1));
  const bool was_full = was_full_;
  window_began_ = changed_ = now;
  bytes_ = 0;
  was_full_ = true;
  if (was_full || mode_ == Mode::kRecovering) judge(goodput);
}

void ConcurrencyLimit::judge(double goodput) noexcept {
  switch (mode_) {
    case Mode::kDoubling:
      if (goodput > kWorthDoubling * reference_) {
        before_ = limit_;
        reference_ = goodput;
        return change(2 * limit_);
      }
      mode_ = Mode::kSteady;
      // What fills the link lies between both; too many requests cost less than too few.
      return change(1.5 * before_);
    case Mode::kTrying:
      mode_ = Mode::kSteady;
      if (goodput > kWorthTrying * reference_) {
        reference_ = goodput;
        windows_ = kWindowsBetweenAttempts;  // at once a few more
        return;
      }
      return change(before_);
    case Mode::kSteady:
      reference_ = reference_ == 0 ? goodput : 0.5 * (reference_ + goodput);
      if (++windows_ < kWindowsBetweenAttempts) return;
      windows_ = 0;
      mode_ = Mode::kTrying;
      before_ = limit_;
      return change(limit_ + std::max(1.0, limit_ / 4));
    case Mode::kRecovering:
      if (limit_ < before_) return change(std::min(before_, limit_ + std::max(1.0, limit_ / 2)));
      mode_ = Mode::kSteady;
      windows_ = 0;
      reference_ = goodput;
      return;
  }
}

void ConcurrencyLimit::change(double limit) noexcept {
  limit_ = std::clamp<double>(limit, 1, kMost);
  window_began_ = -1;
}

void ConcurrencyLimit::throttled(Nanos now) noexcept {
  refused_ = std::min(kOverload, refused_ + 1);
  // Of few requests each counts.
  if (refused_ < std::min(kOverload, limit_) || now - last_cut_ < kOneOverload) return;
  refused_ = 0;
  // Where the server has refused for a while, the limit to go back to sinks as well, but slowly.
  before_ = mode_ == Mode::kRecovering ? std::max(static_cast<double>(kFirst), 0.95 * before_) : limit_;
  mode_ = Mode::kRecovering;
  last_cut_ = changed_ = now;
  change(kCut * limit_);
}

}  // namespace torch_distinput
