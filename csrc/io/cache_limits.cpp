// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_limits.h"

#include <charconv>
#include <stdexcept>
#include <string>

#include "remote/credentials.h"

namespace torch_distinput {
namespace {

std::optional<std::uint64_t> bytes_in(const char* variable) {
  const std::string text = environment(variable);
  if (text.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (problem == std::errc() && end == text.data() + text.size()) return bytes;
  throw std::invalid_argument(std::string(variable) + " must be a number of bytes, but is \"" + text + "\"");
}

}  // namespace

CacheLimits cache_limits() {
  CacheLimits limits;
  if (const auto bytes = bytes_in("TDI_CACHE_BYTES")) limits.max_bytes = *bytes;
  limits.least_free = bytes_in("TDI_CACHE_FREE");
  return limits;
}

}  // namespace torch_distinput
