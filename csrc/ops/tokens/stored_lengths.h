// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace torch_distinput {

/// The rows of each element along dim 0, in the elements' order.
using Lengths = std::vector<std::uint32_t>;

/// What lengths were counted of, and how many there are.
struct LengthsOf {
  std::string hash;         ///< of ops, files and their versions: 40 characters
  std::int64_t count = 0;   ///< elements
  std::string named = {};   ///< the file that the user named; "" if none
  std::string beside = {};  ///< else the file whose neighbour has them

  /// The file that messages name.
  const std::string& place() const { return named.empty() ? beside : named; }
};

/// Returns the stored lengths of `of`, or else those that `count` returns, which are then stored. Those of
/// something else, and damaged ones, are counted anew; a file that the user named and that holds anything but
/// lengths is left as it is. One process of a host counts at a time, and the others take what it has found.
/// `count` calls its argument with the number of elements counted so far. Throws FileError where the named
/// file cannot be used, and what `count` throws.
Lengths stored_lengths(const LengthsOf& of,
                       const std::function<Lengths(const std::function<void(std::int64_t)>& counted)>& count);

/// The stored form: a magic, a version, the hash, the number of lengths, the lengths and the CRC32C of all of
/// these. Little-endian.
std::vector<char> encode_lengths(const LengthsOf& of, const Lengths& lengths);
/// The lengths stored in `bytes`, which may be anything; nullopt unless they are complete and those of `of`.
std::optional<Lengths> decode_lengths(std::span<const char> bytes, const LengthsOf& of);

}  // namespace torch_distinput
