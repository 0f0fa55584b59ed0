// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Nanoseconds of a steady clock.
using Nanos = std::int64_t;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000 * kMillisecond;

/// How many requests to one server may run at a time. It doubles while more requests bring more bytes a
/// second, tries a few more now and then, falls to 0.7 where the server says that it is too much, and is back
/// within seconds after that. Single refusals among many answers are errors, and change nothing. A state
/// machine without a clock. One thread at a time.
class ConcurrencyLimit {
 public:
  static constexpr int kFirst = 16;
  static constexpr int kMost = 512;

  /// The limit, at least 1.
  int limit() const noexcept { return static_cast<int>(limit_); }
  /// `running` requests are under way, and more wait where `wanted`.
  void note_demand(int running, bool wanted) noexcept;
  /// Bytes came.
  void received(std::uint64_t bytes, Nanos now) noexcept;
  /// A request came to its end after `time`.
  void finished(Nanos time) noexcept;
  /// The server refused a request because of its load, or did not answer it at all.
  void throttled(Nanos now) noexcept;

 private:
  void end_window(Nanos now) noexcept;
  void judge(double goodput) noexcept;
  void change(double limit) noexcept;

  enum class Mode {
    kDoubling,    ///< the limit was doubled, and goodput shall show whether that was worth it
    kTrying,      ///< a few more requests were allowed
    kSteady,      ///< neither
    kRecovering,  ///< towards the limit before the server refused
  };

  double limit_ = kFirst;
  Mode mode_ = Mode::kDoubling;
  double before_ = kFirst;   ///< the limit before the attempt; while recovering, the limit to go to
  double reference_ = 0;     ///< bytes a second with that limit
  int windows_ = 0;          ///< since the last attempt
  double average_time_ = 0;  ///< of a request, ns
  bool was_full_ = true;     ///< whether the limit alone kept requests waiting in this window
  Nanos window_began_ = -1;  ///< -1: with the next bytes, once what runs since before the change has ended
  Nanos changed_ = -1;
  std::uint64_t bytes_ = 0;  ///< in this window
  Nanos last_cut_ = -kSecond;
  double refused_ = 0;  ///< requests that were refused since the last cut, and not made up for
};

}  // namespace torch_distinput
