// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// The lines of an image, made from top to bottom on demand, so that a consumer that uses a few at a time
/// finds them in the processor's caches. One thread at a time.
class LineSource {
 public:
  LineSource() = default;
  virtual ~LineSource() = default;
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;

  /// Lines [first, first + count), followed by slack; valid until the next call. `first` must not decrease.
  /// Throws ImageError for damaged data.
  virtual Pixels read(std::int64_t first, std::int64_t count) = 0;
};

/// The lines of pixels in memory.
class LoadedLines final : public LineSource {
 public:
  explicit LoadedLines(Pixels pixels) : pixels_(std::move(pixels)) {}
  Pixels read(std::int64_t first, std::int64_t count) override {
    return pixels_.part({0, first, pixels_.width, count});
  }

 private:
  Pixels pixels_;
};

}  // namespace torch_distinput
