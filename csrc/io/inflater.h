// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/record_format.h"

struct TdiZStream;

namespace torch_distinput {

/// Unpacks a gzip file (of one or more members) or a zlib stream piece by piece. One thread at a time. Any
/// bytes may come.
class Inflater {
 public:
  /// REQUIRES: not Compression::kNone. Throws std::bad_alloc.
  explicit Inflater(Compression compression);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  struct Progress {
    std::size_t used = 0;      ///< bytes taken from the input
    std::size_t made = 0;      ///< bytes written to the output
    std::string problem = {};  ///< not empty: the data are damaged, and nothing further can be unpacked
  };
  /// Unpacks until the input is used up, a member ends or `out`, which is not empty, is full. An empty input
  /// stands for the end of the file: then no progress and no problem means that everything was unpacked.
  Progress step(std::span<const char> in, std::span<char> out);

 private:
  std::unique_ptr<TdiZStream> stream_;
  bool members_;         ///< another member may follow
  bool between_ = true;  ///< no member is open
  bool begun_ = false;
};

}  // namespace torch_distinput
