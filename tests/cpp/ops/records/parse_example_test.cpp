// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>

#include "io/sample_files.h"
#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/files.h"
#include "torch_distinput/record_writer.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element strings_of(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return {Structure::leaf(), {Bytes::column(views)}};
}

std::string sample_example(std::int64_t number) {
  return example(
      Element::dict({{"n", scalar(number)},
                     {"x", at::tensor({0.5F, 1.5F})},
                     {"name", {Structure::leaf(), {Bytes::single("row " + std::to_string(number))}}}}));
}

const Features kSampleFeatures{{"n", FixedLenFeature{{}, FeatureType::kInt64, {}}},
                               {"x", RaggedFeature{FeatureType::kFloat}},
                               {"name", FixedLenFeature{{}, FeatureType::kText, {}}},
                               {"at", SparseFeature{{"n"}, "n", FeatureType::kInt64, {50}, false}}};

TEST(ParseExample, FeaturesBecomeADict) {
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < 9; ++i) records.push_back(sample_example(i));
  const Dataset parsed =
      Dataset::from_tensor_slices(strings_of(records)).batch(4).parse_example(kSampleFeatures);
  expect_laws(parsed);
  const Element last = parsed.iterate().next().value();
  EXPECT_EQ(items(last["n"]), numbers(0, 4));
  EXPECT_EQ(std::get<Bytes>(last["name"].leaves()[0])[3], "row 3");
  EXPECT_EQ(std::get<Ragged>(last["x"].leaves()[0]).values.numel(), 8);
}

TEST(ParseExample, BytesOfFilesAreNotCopiedIntoABatchOfNumbers) {
  const files_testing::Folder folder;
  const std::string path = folder.path("records");
  TFRecordWriter writer(path);
  for (std::int64_t i = 0; i < 6; ++i) writer.write(files_testing::bytes_of(i));
  writer.close();
  const Dataset rows = TFRecordDataset(path).decode_raw(at::kLong).batch(6);
  expect_laws(rows);
  EXPECT_EQ(values(rows), numbers(0, 6));
  ASSERT_TRUE(plan_of(TFRecordDataset(path).decode_raw(at::kLong))->fetches_batches());
}

/// Nothing but InvalidArgumentError may come of damaged records, whatever the features; a sanitizer build
/// sees accesses outside of them.
TEST(ParseExample, MutatedRecordsAreParsedOrRefused) {
  std::mt19937_64 random(9);
  int parsed = 0;
  const std::string good = sample_example(7);
  for (int i = 0; i < files_testing::kMutations; ++i) {
    const Element records = strings_of({good, files_testing::mutated(good, random)});
    const Dataset dataset = Dataset::from_tensors(records).parse_example(kSampleFeatures);
    try {
      parsed += dataset.iterate({.stream_only = true}).next().has_value() ? 1 : 0;
    } catch (const InvalidArgumentError&) {
      // A damaged record is an expected outcome.
    }
  }
  EXPECT_GT(parsed, files_testing::kMutations / 100);
}

TEST(ParseTensor, MutatedMessagesAreParsedOrRefused) {
  // A TensorProto of float32, shape (2, 3), with its content and with values of their own.
  const std::string good =
      std::string("\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x22\x18", 14) + std::string(24, 'x');
  const std::string repeated =
      std::string("\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03\x2a\x04", 14) + "abcd";
  std::mt19937_64 random(10);
  int parsed = 0;
  for (int i = 0; i < files_testing::kMutations; ++i) {
    const Element records = strings_of({files_testing::mutated(i % 2 == 0 ? good : repeated, random)});
    try {
      parsed += Dataset::from_tensors(records).parse_tensor(at::kFloat).iterate({.stream_only = true}).next()
                    ? 1
                    : 0;
    } catch (const InvalidArgumentError&) {
      // A damaged message is an expected outcome.
    }
  }
  EXPECT_GT(parsed, files_testing::kMutations / 100);
}

}  // namespace
}  // namespace torch_distinput
