// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace torch_distinput {

/// FNV-1a with 64 bits: the same value for the same bytes on every machine, so that ranks and files can
/// compare it. Not cryptographic. One thread at a time.
class Hash {
 public:
  /// Adds bytes; the hash of several pieces is that of their concatenation.
  void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) add_word(static_cast<unsigned char>(byte));
  }
  /// One step of the hash for a whole word; not the same as adding its bytes.
  void add_word(std::uint64_t word) noexcept { value_ = (value_ ^ word) * 0x100000001b3U; }
  /// The hash of all that was added so far.
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// The hash of `bytes` alone.
inline std::uint64_t hash_of(std::string_view bytes) noexcept {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace torch_distinput
