// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "io/sample_files.h"
#include "ops/op_testing.h"
#include "sources/tokens/token_windows.h"
#include "torch_distinput/error.h"
#include "torch_distinput/tokens.h"

namespace torch_distinput {
namespace {

using TokenDatasetTest = files_testing::InFolder;
using Files = std::vector<std::string>;
using Tokens = std::vector<std::uint16_t>;
using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::string written(const files_testing::Folder& folder, const std::string& name, const Tokens& tokens) {
  return folder.write(name,
                      {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(tokens[0])});
}

Tokens counted(std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  return tokens;
}

/// Begin and end of each row, found document by document.
Bounds model(const std::vector<std::int64_t>& ends, const TokenCuts& cuts) {
  Bounds rows;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    if (!cuts.length) rows.emplace_back(begin, end);
    for (std::int64_t row = begin; cuts.length && row + *cuts.length <= end; row += cuts.stride)
      rows.emplace_back(row, row + *cuts.length);
    begin = end;
  }
  return rows;
}

TEST(TokenRows, AreThoseFoundOneByOne) {
  std::mt19937 engine(7);
  const auto random = [&engine](std::int64_t below) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(below));
  };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::int64_t> ends;
    std::int64_t tokens = 0;
    for (auto documents = random(6); documents > 0; --documents) ends.push_back(tokens += random(9));
    TokenCuts cuts{std::nullopt, 1, random(2) == 0};
    if (random(4) != 0) cuts = {1 + random(7), 1 + random(5), cuts.by_document};
    const bool matter = !cuts.length || cuts.by_document;
    const TokenRows rows(tokens, matter ? ends : std::vector<std::int64_t>{}, cuts);
    const Bounds expected = model(matter ? ends : std::vector{tokens}, cuts);
    ASSERT_EQ(rows.size(), static_cast<std::int64_t>(expected.size()));
    for (std::int64_t row = 0; row < rows.size(); ++row) {
      const auto [begin, count] = rows[row];
      ASSERT_EQ(std::pair(begin, begin + count), expected[static_cast<std::size_t>(row)]);
    }
  }
}

TEST_F(TokenDatasetTest, TargetsAreOneTokenFurtherOnInTheSameMemory) {
  const Files files{written(folder_, "a", counted(10)), written(folder_, "b", counted(4))};
  const TokenDataset dataset(files, c10::kUInt16, {.sequence_length = 3});
  EXPECT_EQ(dataset.cardinality(), 4);
  const Element batch = *dataset.batch(4).begin();
  EXPECT_EQ(op_testing::items(batch), (op_testing::Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2,  //
                                                          1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}));
  EXPECT_EQ(batch.tensor(0).storage().data(), batch.tensor(1).storage().data());
}

TEST_F(TokenDatasetTest, ObeysTheLaws) {
  const Files files{written(folder_, "a", counted(50)), written(folder_, "b", counted(31))};
  const TokenDataset dataset(files, c10::kUInt16,
                             {.sequence_length = 4, .stride = 3, .document_boundary = 17});
  op_testing::expect_laws(dataset);
  op_testing::expect_laws(dataset.shuffle({.seed = 1}).batch(3));
}

TEST_F(TokenDatasetTest, NamesFileAndByteOfATokenOutOfRange) {
  const std::string path = written(folder_, "a", counted(10));
  const TokenDataset dataset(path, c10::kUInt16, {.sequence_length = 3, .vocab_size = 8});
  DatasetIterator iterator = dataset.batch(3).iterate();
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { iterator.next(); }),
            "TokenDataset: " + path + ": at byte 16: token 8 is 8, but tokens must be in [0, 8).");
}

TEST_F(TokenDatasetTest, AFileThatShrinksIsAnError) {
  const std::string path = written(folder_, "a", counted(4000));
  DatasetIterator iterator = TokenDataset(path, c10::kUInt16, {.sequence_length = 5}).batch(8).iterate();
  EXPECT_TRUE(iterator.next());
  std::filesystem::resize_file(path, 100);
  EXPECT_TRUE(has(message_of<InvalidArgumentError>([&] {
                    while (iterator.next()) {
                    }
                  }),
                  "the file changed"));
}

}  // namespace
}  // namespace torch_distinput
