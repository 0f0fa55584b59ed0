// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/element_codec.h"

#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/element_bytes.h"
#include "runtime/buffer_pool.h"
#include "support/mutations.h"

namespace torch_distinput {
namespace {

/// Leaves of all kinds that have bytes, with dims of 0 and views among them.
Element random_element(std::mt19937_64& random) {
  constexpr c10::ScalarType kTypes[] = {at::kFloat, at::kLong,     at::kByte,
                                        at::kBool,  at::kBFloat16, at::kComplexFloat};
  const auto count = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  std::vector<Element> parts;
  for (int leaf = 0; leaf < 4; ++leaf) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(count(3)));
    for (std::int64_t& dim : shape) dim = count(4);
    const at::Tensor tensor = at::randint(0, 2, shape).to(kTypes[random() % std::size(kTypes)]);
    parts.emplace_back(tensor.dim() > 1 ? tensor.transpose(0, 1) : tensor);
  }
  const std::string text = "gr\xc3\xbc\xc3\x9f";
  std::vector<std::string_view> strings(static_cast<std::size_t>(count(3)), text);
  strings.emplace_back("");
  parts.emplace_back(Structure::leaf(), std::vector<Leaf>{Bytes::column(strings, random() % 2 == 0)});
  parts.emplace_back(Structure::leaf(), std::vector<Leaf>{Bytes::single(text, random() % 2 == 0)});
  return Element::tuple(std::move(parts));
}

TEST(ElementCodecTest, ReadsWhatItWrote) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const Element element = random_element(random);
    const std::vector<char> bytes = encode_element(element, "test");
    const Element read = decode_element(bytes, element.structure(), *host_pool(), "test");
    ASSERT_EQ(element_bytes(read), element_bytes(element));
  }
}

TEST(ElementCodecTest, TellsWhatIsNotAnElement) {
  std::mt19937_64 random(2);
  int refused = 0;
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const Element element = random_element(random);
    const std::vector<char> bytes = encode_element(element, "test");
    const std::string damaged = mutations_testing::mutated({bytes.data(), bytes.size()}, random);
    try {
      decode_element(std::span<const char>(damaged), element.structure(), *host_pool(), "test");
    } catch (const c10::ValueError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, mutations_testing::kMutations / 4);
}

TEST(ElementCodecTest, RefusesLeavesThatHaveNoBytes) {
  const Element ragged(Structure::leaf(), {Ragged{at::zeros({3}), at::arange(2) * 3}});
  EXPECT_THROW(encode_element(ragged, "test"), c10::TypeError);
}

}  // namespace
}  // namespace torch_distinput
