// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/record_format.h"

struct TdiZStream;

namespace torch_distinput {

/// Unpacks a gzip file (of one or more members) or a zlib stream piece by piece. The input may hold any
/// bytes: damage is reported, never trusted. One thread at a time.
class Inflater {
 public:
  /// REQUIRES: `compression` is not Compression::kNone. Throws std::bad_alloc.
  explicit Inflater(Compression compression);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// The result of one step.
  struct Progress {
    std::size_t used = 0;      ///< bytes consumed from the input
    std::size_t made = 0;      ///< bytes written to the output
    std::string problem = {};  ///< if not empty, the data are damaged and nothing further can be unpacked
  };
  /// Unpacks until the input is used up, a member ends or `out` is full. An empty `in` means the end of the
  /// file: if there is then neither progress nor a problem, everything has been unpacked. Throws
  /// std::bad_alloc. REQUIRES: `out` is not empty.
  Progress step(std::span<const char> in, std::span<char> out);

 private:
  std::unique_ptr<TdiZStream> stream_;
  bool members_;         ///< another member may follow the first one (gzip)
  bool between_ = true;  ///< before the first member or after the end of one
  bool begun_ = false;   ///< the first member has begun
};

}  // namespace torch_distinput
