// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/stored_lengths.h"

#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

LengthsOf three() { return {std::string(40, 'a'), 3}; }

TEST(StoredLengths, AreWhatWasStored) {
  const Lengths lengths{0, 7, 0xffffffffU};
  EXPECT_EQ(decode_lengths(encode_lengths(three(), lengths), three()), lengths);
  const LengthsOf none{std::string(40, 'b'), 0};
  EXPECT_EQ(decode_lengths(encode_lengths(none, {}), none), Lengths{});
}

TEST(StoredLengths, OfSomethingElseAreNotTaken) {
  const std::vector<char> bytes = encode_lengths(three(), {1, 2, 3});
  EXPECT_FALSE(decode_lengths(bytes, {std::string(40, 'b'), 3}));
  EXPECT_FALSE(decode_lengths(bytes, {std::string(40, 'a'), 2}));
  EXPECT_FALSE(decode_lengths(bytes, {std::string(40, 'a'), 4}));
}

TEST(StoredLengths, AreNotTakenWithAnyDamage) {
  const std::vector<char> bytes = encode_lengths(three(), {1, 2, 3});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_lengths(std::span(bytes).first(size), three()));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<char> damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_FALSE(decode_lengths(damaged, three()));
  }
}

}  // namespace
}  // namespace torch_distinput
