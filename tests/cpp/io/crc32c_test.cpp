// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/crc32c.h"

#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(Crc32c, HasTheValuesOfTheStandard) {
  EXPECT_EQ(crc32c(std::string_view("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(std::string_view()), 0U);
}

TEST(Crc32c, InstructionAndTableAgreeAtEveryLengthAndOffset) {
  std::mt19937_64 random(7);
  std::string bytes(70'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const std::string_view all = bytes;
  for (std::size_t size = 0; size < 500; ++size) {
    const auto part = all.substr(size % 9, size);
    ASSERT_EQ(crc32c(part), crc32c_portable(part)) << size;
  }
  for (const std::size_t size : {6143U, 6144U, 6145U, 20'000U, 69'000U}) {
    ASSERT_EQ(crc32c(all.substr(3, size)), crc32c_portable(all.substr(3, size))) << size;
  }
}

TEST(Crc32c, ContinuesFromACrc) {
  const std::string_view text = "a text in two parts";
  EXPECT_EQ(crc32c(text.substr(6), crc32c(text.substr(0, 6))), crc32c(text));
  EXPECT_EQ(crc32c_portable(text.substr(6), crc32c_portable(text.substr(0, 6))), crc32c(text));
}

TEST(Crc32c, MasksAsTfRecordFilesDo) { EXPECT_EQ(mask_crc(0xe3069283U), 0xc78ab0e5U); }

}  // namespace
}  // namespace torch_distinput
