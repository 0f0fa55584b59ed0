// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "remote/base64.h"
#include "remote/sha256.h"

namespace torch_distinput {
namespace {

std::string hex_digest(std::string_view data) { return hex_of(bytes_of(sha256(data))); }
std::string hex_hmac(std::string_view key, std::string_view data) {
  return hex_of(bytes_of(hmac_sha256(key, data)));
}

TEST(Sha256, HasTheExamplesOfFips180) {
  EXPECT_EQ(hex_digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                       "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hex_digest(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The lengths around the ends of blocks; the value is that of another implementation.
TEST(Sha256, HashesEveryLength) {
  std::string digests;
  for (std::size_t size = 0; size < 200; ++size) digests += hex_digest(std::string(size, 'x'));
  EXPECT_EQ(hex_digest(digests), "f61ffcc417e1f0e59eba2da7fa32fbe05b64e478b68c6bacf990455f00248b98");
}

TEST(Hmac, HasTheExamplesOfRfc4231) {
  EXPECT_EQ(hex_hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counted;
  for (char byte = 1; byte <= 25; ++byte) counted += byte;
  EXPECT_EQ(hex_hmac(counted, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hex_hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex_hmac(std::string(131, '\xaa'),
                     "This is a test using a larger than block-size key and a larger than block-size data. "
                     "The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Base64, HasTheExamplesOfRfc4648) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"},
                                                          {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text), bytes);
  }
}

TEST(Base64, DecodesWhatItEncodes) {
  std::mt19937_64 random(2);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
  }
}

TEST(Base64, IsNothingElse) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "Zm9v=", "=", "====", "Zm=v", "Zm9v\n", "Zm9 ", "Zm-_", "Zh=="})
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
}

}  // namespace
}  // namespace torch_distinput
