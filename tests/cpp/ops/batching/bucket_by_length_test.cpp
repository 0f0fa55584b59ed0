// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// Row i is i, (i mod 4) + 1 times.
Dataset repeated_rows(std::int64_t count) {
  return Dataset::range(count).map(
      [](Element x) { return Element(at::full({scalar(x) % 4 + 1}, scalar(x), at::kLong)); });
}
std::int64_t length(const Element& row) { return row.tensor().size(0); }

const BucketOptions kOptions{.bucket_boundaries = {2, 4}, .bucket_batch_sizes = {1, 2, 2}};

TEST(BucketByLength, BatchesRowsOfSimilarLength) {
  // Lengths are 1 2 3 4 1 2 3: what is left comes at the end.
  EXPECT_EQ(elements(repeated_rows(7).bucket_by_length(length, kOptions)),
            (std::vector<Values>{{0}, {1, 1, 0, 2, 2, 2}, {4}, {5, 5, 0, 6, 6, 6}, {3, 3, 3, 3}}));
}

TEST(BucketByLength, DropsShortBatchesWithDropRemainder) {
  BucketOptions options = kOptions;
  options.drop_remainder = true;
  EXPECT_EQ(elements(repeated_rows(4).bucket_by_length(length, options)),
            (std::vector<Values>{{0}, {1, 1, 0, 2, 2, 2}}));
}

TEST(BucketByLength, PadsToTheBoundaryIfAsked) {
  BucketOptions options{.bucket_boundaries = {3, 6}, .bucket_batch_sizes = {2, 1, 1}};
  options.padding_values = scalar(-1);
  options.pad_to_bucket_boundary = true;
  EXPECT_EQ(elements(repeated_rows(3).bucket_by_length(length, options)),
            (std::vector<Values>{{0, -1, 1, 1}, {2, 2, 2, -1, -1}}));
}

TEST(BucketByLength, ObeysTheLaws) {
  expect_laws(repeated_rows(13).bucket_by_length(length, kOptions));
  expect_laws(generated(13)
                  .map([](Element x) { return Element(at::full({scalar(x) % 5 + 1}, scalar(x), at::kLong)); })
                  .bucket_by_length(length, kOptions)
                  .unbatch());
}

TEST(BucketByLength, KnowsThatItMakesBatchesOfNoSingleSize) {
  const Dataset dataset = repeated_rows(4).bucket_by_length(length, kOptions);
  EXPECT_EQ(dataset.node()->batch_size(), std::nullopt);
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
  EXPECT_FALSE(dataset.node()->traits().sharding.pass_through);
  EXPECT_EQ(to_string(dataset.element_spec()), "TensorSpec(shape=(None, None), dtype=torch.int64)");
}

TEST(BucketByLength, RefusesWrongArguments) {
  const auto message = [](BucketOptions options) {
    return message_of<c10::ValueError>(
        [&] { repeated_rows(2).bucket_by_length(length, std::move(options)); });
  };
  EXPECT_EQ(message({.bucket_boundaries = {3, 2}, .bucket_batch_sizes = {1, 1, 1}}),
            "bucket_by_length: `bucket_boundaries` must be increasing numbers of at least 1, but is [3, 2].");
  EXPECT_EQ(
      message({.bucket_boundaries = {3}, .bucket_batch_sizes = {1}}),
      "bucket_by_length: `bucket_batch_sizes` must have one entry more than `bucket_boundaries`, 2, but "
      "has 1.");
}

}  // namespace
}  // namespace torch_distinput
