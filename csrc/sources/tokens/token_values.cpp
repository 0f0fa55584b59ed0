// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/tokens/token_values.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include <c10/util/Exception.h>

// The loops over tokens are short enough for the compiler to vectorize, which -O2 does not ask for.
#if defined(__GNUC__) && !defined(__clang__)
#define TDI_VECTORIZED __attribute__((optimize("O3")))
#else
#define TDI_VECTORIZED
#endif

namespace torch_distinput {
namespace {

/// Calls `use` with a value of the C++ type that stores tokens of `dtype`.
template <class Use>
auto with_token_type(c10::ScalarType dtype, Use use) {
  switch (dtype) {
    case c10::kByte:
      return use(std::uint8_t{});
    case c10::kChar:
      return use(std::int8_t{});
    case c10::kUInt16:
      return use(std::uint16_t{});
    case c10::kShort:
      return use(std::int16_t{});
    case c10::kUInt32:
      return use(std::uint32_t{});
    case c10::kInt:
      return use(std::int32_t{});
    case c10::kLong:
      return use(std::int64_t{});
    default:
      TORCH_INTERNAL_ASSERT(false, "tokens are not stored as ", dtype);
  }
}

/// The largest of `count` values as unsigned numbers, so that a negative one counts as a large one.
template <class T>
TDI_VECTORIZED std::make_unsigned_t<T> largest(const T* from, std::int64_t count) {
  std::make_unsigned_t<T> most = 0;
  for (std::int64_t i = 0; i < count; ++i)
    most = std::max(most, static_cast<std::make_unsigned_t<T>>(from[i]));
  return most;
}

template <class From, class To>
TDI_VECTORIZED void convert_all(const From* from, std::int64_t count, To* to) {
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 is a number here, not a character
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

/// REQUIRES: `limit` is at least 1.
template <class T>
std::int64_t first_outside(const T* from, std::int64_t count, std::int64_t limit) {
  const auto top = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  const std::uint64_t most = static_cast<std::uint64_t>(limit) - 1;
  if (std::is_unsigned_v<T> && most >= top) return -1;
  if (largest(from, count) <= std::min(most, top)) return -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int64_t>(from[i]);  // NOLINT(bugprone-signed-char-misuse)
    if (value < 0 || value >= limit) return i;
  }
  return -1;
}

template <class T>
TDI_VECTORIZED std::int64_t find_value(const T* tokens, std::int64_t begin, std::int64_t count, T value) {
  return std::find(tokens + begin, tokens + count, value) - tokens;
}

}  // namespace

bool stores_tokens(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kByte:
    case c10::kChar:
    case c10::kUInt16:
    case c10::kShort:
    case c10::kUInt32:
    case c10::kInt:
    case c10::kLong:
      return true;
    default:
      return false;
  }
}

std::int64_t token_at(const char* tokens, c10::ScalarType dtype, std::int64_t index) {
  return with_token_type(dtype, [&](auto type) {
    decltype(type) value;
    std::memcpy(&value, tokens + index * static_cast<std::int64_t>(sizeof(value)), sizeof(value));
    return static_cast<std::int64_t>(value);
  });
}

std::int64_t convert_tokens(const TokenConversion& conversion, const char* from, std::int64_t count,
                            char* to) {
  return with_token_type(conversion.from, [&](auto type) -> std::int64_t {
    const auto* values = reinterpret_cast<const decltype(type)*>(from);
    if (conversion.limit) {
      const std::int64_t outside = first_outside(values, count, *conversion.limit);
      if (outside >= 0) return outside;
    }
    if (conversion.to == c10::kLong) {
      convert_all(values, count, reinterpret_cast<std::int64_t*>(to));
    } else {
      convert_all(values, count, reinterpret_cast<std::int32_t*>(to));
    }
    return -1;
  });
}

std::int64_t find_token(const char* tokens, c10::ScalarType dtype, std::int64_t begin, std::int64_t count,
                        std::int64_t token) {
  return with_token_type(dtype, [&](auto type) -> std::int64_t {
    using Stored = decltype(type);
    const auto value = static_cast<Stored>(token);
    if (static_cast<std::int64_t>(value) != token) return count;  // the type cannot hold it
    return find_value(reinterpret_cast<const Stored*>(tokens), begin, count, value);
  });
}

}  // namespace torch_distinput
