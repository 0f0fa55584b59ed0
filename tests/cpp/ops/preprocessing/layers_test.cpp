// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "kernels/preprocessing/hashes.h"
#include "kernels/preprocessing/token_table.h"
#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/preprocessing.h"

namespace torch_distinput::preprocessing {
namespace {

Bytes strings(const std::vector<std::string>& values) {
  const std::vector<std::string_view> views(values.begin(), values.end());
  return Bytes::column(views, /*utf8=*/true);
}

Element strings_element(const std::vector<std::string>& values) {
  return {Structure::leaf(), {strings(values)}};
}

TEST(Fingerprint64, AgreesWithTensorFlowsBinsForEachLength) {
  // tf.strings.to_hash_bucket_fast(..., 1000); the lengths take different ways through the hash.
  const auto bin = [](std::string_view text) { return fingerprint64(text) % 1000; };
  EXPECT_EQ(bin("\xff"), 103U);
  EXPECT_EQ(bin("a\xff"
                "b"),
            74U);
}

TEST(SipHash, AgreesWithTheVectorsOfItsPaper) {
  // Appendix A: key 00 01 ... 0f, input 00 01 ... 0e.
  const SipKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::string input;
  for (char byte = 0; byte < 15; ++byte) input.push_back(byte);
  EXPECT_EQ(sip_hash(input, key), 0xa129ca6149be45e5U);
}

/// Numbers of distinct tokens in the order in which they were added, as a table gives them.
template <class Table, class Token>
void expect_finds_what_a_map_finds(const std::vector<Token>& added, const std::vector<Token>& absent) {
  Table table;
  std::map<Token, std::int64_t> numbers;
  for (const Token& token : added) {
    const auto [place, is_new] = numbers.emplace(token, static_cast<std::int64_t>(numbers.size()));
    ASSERT_EQ(table.add(token), place->second);
  }
  ASSERT_EQ(table.size(), static_cast<std::int64_t>(numbers.size()));
  using View = std::conditional_t<std::is_same_v<Token, std::string>, std::string_view, Token>;
  std::vector<View> asked(added.begin(), added.end());
  asked.insert(asked.end(), absent.begin(), absent.end());
  std::vector<std::int64_t> found(asked.size());
  table.find(asked, found.data());
  for (std::size_t i = 0; i < added.size(); ++i) {
    ASSERT_EQ(found[i], numbers.at(added[i])) << i;
    ASSERT_EQ(table[found[i]], asked[i]);
  }
  for (std::size_t i = 0; i < asked.size(); ++i) ASSERT_EQ(table.find(asked[i]), found[i]);
  for (std::size_t i = added.size(); i < found.size(); ++i) ASSERT_EQ(found[i], kNoToken) << i;
}

TEST(StringTable, FindsWhatAMapFindsForEachLength) {
  std::mt19937 random(7);
  const auto token_of = [&](std::size_t size) {
    std::string token(size, 'a');
    for (char& byte : token) byte = "ab\0\xff"[random() % 4];  // zeros end no string
    return token;
  };
  std::vector<std::string> added;
  for (std::size_t i = 0; i < 5000; ++i) added.push_back(token_of(i % 60));
  for (std::size_t size = 0; size < 60; ++size) {
    for (std::size_t at = 0; at < size; ++at) {  // strings that differ in one byte
      added.emplace_back(size, 'x');
      added.back()[at] = 'y';
    }
  }
  std::vector<std::string> absent;
  for (std::size_t size = 0; size < 60; ++size) absent.push_back(token_of(size) + "c");
  expect_finds_what_a_map_finds<StringTable>(added, absent);
}

TEST(IntegerTable, FindsWhatAMapFinds) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> added{0, -1, std::numeric_limits<std::int64_t>::min()};
  for (std::int64_t i = 0; i < 5000; ++i) {
    added.push_back(i % 700);
    added.push_back(i << 32);
    added.push_back(static_cast<std::int64_t>(random() | 1));
  }
  expect_finds_what_a_map_finds<IntegerTable>(added, std::vector<std::int64_t>{1000, -2, 701});
}

TEST(LookupLayer, RunsInAPipelineAndKeepsItsLaws) {
  const VocabularyPtr vocabulary = Vocabulary::of(strings({"a", "b"}));
  const Dataset words = Dataset::from_tensor_slices(strings_element({"b", "z", "a", "b", "a"})).batch(2);
  const Dataset indices = words.map(lookup(vocabulary));
  EXPECT_EQ(op_testing::elements(indices), (std::vector<op_testing::Values>{{2, 0}, {1, 2}, {1}}));
  op_testing::expect_laws(indices);
}

TEST(LookupLayer, RefusesAStateOfAnotherVocabularyByName) {
  const Dataset words = Dataset::from_tensor_slices(strings_element({"a", "b"}));
  DatasetIterator first = words.map(lookup(Vocabulary::of(strings({"a", "b"})))).iterate();
  DatasetIterator second = words.map(lookup(Vocabulary::of(strings({"b", "a"})))).iterate();
  EXPECT_TRUE(has(message_of<c10::ValueError>([&] { second.load(first.save()); }), "StringLookup"));
}

TEST(TextVectorizationLayer, KeepsTheLawsOnRaggedRows) {
  const VocabularyPtr vocabulary = Vocabulary::of(strings({"the", "fox"}));
  TextOptions text;
  text.ragged = true;
  text.ngrams = {1, 2};
  LookupOptions options;
  options.mask_token = std::string();
  const Dataset texts =
      Dataset::from_tensor_slices(strings_element({"The fox!", "", "a fox", "The the."})).batch(3);
  op_testing::expect_laws(texts.map(text_vectorization(vocabulary, text, options)));
}

TEST(CategoryEncodingLayer, NamesAnIndexOutOfRange) {
  const LayerPtr layer = category_encoding(3, {.mode = OutputMode::kMultiHot, .dtype = at::kFloat});
  const Leaf indices = at::tensor({0, 3});
  EXPECT_THROW(layer->call({&indices, 1}, {}), InvalidArgumentError);
}

TEST(TokenCounter, GivesTheSameWhateverTheOrderOfMerges) {
  const std::vector<std::string> words{"b", "a", "c", "a", "b", "d"};
  const auto all = TokenCounter::of_strings();
  const auto first = TokenCounter::of_strings();
  const auto second = TokenCounter::of_strings();
  all->add(strings(words), {});
  first->add(strings({words.begin(), words.begin() + 3}), {});
  second->add(strings({words.begin() + 3, words.end()}), {});
  second->merge(first->counts());
  const auto tokens = [](const TokenCounter& counter) {
    const Leaf leaf = counter.top(3, {std::string("d")}).tokens;
    const auto& column = std::get<Bytes>(leaf);
    std::vector<std::string> result;
    for (std::int64_t i = 0; i < column.count(); ++i) result.emplace_back(column[i]);
    return result;
  };
  EXPECT_EQ(tokens(*all), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(tokens(*second), tokens(*all));
}

}  // namespace
}  // namespace torch_distinput::preprocessing
