// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "limit.h"

#include <cstddef>

/// \file
/// C functions that the Python benchmarks call through ctypes, which releases the GIL. The Python program
/// compiles this file itself.

extern "C" {

/// See `limit::measure`. Leaf i of the rows is at `sources[i]` and has rows of `row_bytes[i]` bytes.
limit::Cost limit_gather(std::int64_t leaves, const void* const* sources, const std::int64_t* row_bytes,
                         const std::int64_t* order, std::int64_t rows, std::int64_t batch,
                         std::int64_t threads, std::int64_t buffers) {
  std::vector<limit::Leaf> all;
  for (std::int64_t i = 0; i < leaves; ++i)
    all.push_back({static_cast<const char*>(sources[i]), row_bytes[i]});
  return limit::measure(all, {order, static_cast<std::size_t>(rows)}, batch, threads, buffers);
}

/// The working consumer: a fixed amount of arithmetic that touches no memory and cannot be skipped.
std::uint64_t limit_work(std::int64_t rounds) {
  std::uint64_t value = 1;
  for (std::int64_t i = 0; i < rounds; ++i) value = value * 6364136223846793005U + 1442695040888963407U;
  return value;
}
}
