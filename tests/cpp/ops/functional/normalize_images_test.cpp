// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

const std::vector<double> kMean{0.485, 0.456, 0.406};
const std::vector<double> kStd{0.229, 0.224, 0.225};

/// `count` images of 4 by 5 pixels, and a number for each.
Dataset images(std::int64_t count) {
  return Dataset::from_tensor_slices(
      Element::dict({{"image", at::arange(count * 60).remainder(251).to(at::kByte).view({count, 4, 5, 3})},
                     {"label", at::arange(count)}}));
}

TEST(NormalizeImages, ScalesEachChannelAndPutsItFirst) {
  const Element batch = *images(2).batch(2).normalize_images(kMean, kStd).iterate().next();
  const at::Tensor result = batch["image"].tensor();
  EXPECT_EQ(result.sizes(), at::IntArrayRef({2, 3, 4, 5}));
  EXPECT_EQ(result.scalar_type(), at::kFloat);
  // Image 1, channel 2, row 3, column 4 is the last byte.
  const auto byte = static_cast<float>(119);
  const float expected =
      std::fma(byte, static_cast<float>(1 / (255 * kStd[2])), static_cast<float>(-kMean[2] / kStd[2]));
  EXPECT_EQ(result[1][2][3][4].item<float>(), expected);
  EXPECT_EQ(items(batch["label"]), Values({0, 1}));
}

TEST(NormalizeImages, IsTheSameBeforeAndAfterBatch) {
  const auto first = [](const Dataset& dataset) { return (*dataset.iterate().next())["image"].tensor(); };
  EXPECT_TRUE(at::equal(first(images(4).normalize_images(kMean, kStd).batch(4)),
                        first(images(4).batch(4).normalize_images(kMean, kStd))));
}

TEST(NormalizeImages, RowsArriveInTheirPlacesHoweverManyAreReadAtOnce) {
  const at::Tensor pixels = at::arange(50 * 64 * 64 * 3).remainder(253).to(at::kByte).view({50, 64, 64, 3});
  const Dataset rows = Dataset::from_tensor_slices(Element::tuple({pixels, at::arange(50), pixels}));
  const auto normalized = [&](const Dataset& dataset, const at::Tensor& positions) {
    return *dataset.normalize_images(kMean, kStd).select(positions).batch(50).iterate().next();
  };
  const at::Tensor backwards = at::arange(49, -1, -1);
  const Element all = *rows.batch(50).normalize_images(kMean, kStd).iterate().next();
  for (const at::Tensor& positions : {at::arange(50), backwards}) {
    const Element batch = normalized(rows, positions);
    for (const std::size_t leaf : {0, 1, 2})
      EXPECT_TRUE(at::equal(batch.tensor(leaf), all.tensor(leaf).index_select(0, positions)));
  }
}

TEST(NormalizeImages, RowsOfSeveralDatasetsArriveInTheirPlaces) {
  const at::Tensor first = at::zeros({3, 4, 5, 3}, at::kByte), second = first + 51;
  const auto rows = [](const at::Tensor& pixels) {
    return Dataset::from_tensor_slices(Element(pixels)).normalize_images({0, 0, 0}, {1, 1, 1});
  };
  const Dataset mixed =
      rows(first).concatenate(rows(second)).select(at::arange(6).view({2, 3}).t().flatten());
  const at::Tensor batch = mixed.batch(6).iterate().next()->tensor();
  EXPECT_EQ(items(batch.select(1, 0).select(1, 0).select(1, 0).mul(5).round().to(at::kLong)),
            Values({0, 1, 0, 1, 0, 1}));
}

TEST(NormalizeImages, GivesSingleRowsAsBatchesOfThem) {
  auto rows = images(3).normalize_images(kMean, kStd).iterate();
  const Element all = *images(3).batch(3).normalize_images(kMean, kStd).iterate().next();
  for (std::int64_t row = 0; row < 3; ++row) {
    const Element element = *rows.next();
    EXPECT_TRUE(at::equal(element["image"].tensor(), all["image"].tensor()[row]));
    EXPECT_EQ(element["label"].tensor().item<std::int64_t>(), row);
  }
}

TEST(NormalizeImages, FindsTheChannelsByTheirNumber) {
  const Dataset planes = Dataset::from_tensor_slices(Element(at::zeros({2, 3, 4, 5}, at::kByte))).batch(2);
  const auto shape = [](const Dataset& dataset) { return dataset.iterate().next()->tensor().sizes().vec(); };
  EXPECT_EQ(shape(planes.normalize_images(kMean, kStd)), std::vector<std::int64_t>({2, 3, 4, 5}));
  EXPECT_EQ(shape(planes.normalize_images(kMean, kStd, {.layout = ImageLayout::kNhwc})),
            std::vector<std::int64_t>({2, 4, 5, 3}));
}

TEST(NormalizeImages, DoesNotChangeOtherLeaves) {
  const Dataset dataset = Dataset::from_tensor_slices(
      Element::tuple({at::zeros({2, 4, 5, 3}, at::kByte), at::zeros({2, 4, 3}, at::kByte),
                      at::zeros({2, 4, 5, 3}, at::kInt)}));
  const Element batch = *dataset.batch(2).normalize_images(kMean, kStd).iterate().next();
  EXPECT_EQ(batch.tensor(0).scalar_type(), at::kFloat);
  EXPECT_EQ(batch.tensor(1).scalar_type(), at::kByte);
  EXPECT_EQ(batch.tensor(2).sizes(), at::IntArrayRef({2, 4, 5, 3}));
}

TEST(NormalizeImages, KnowsItsSpecAndCardinality) {
  const Dataset dataset = images(5).batch(2).normalize_images(kMean, kStd, {.dtype = at::kHalf});
  EXPECT_EQ(to_string(dataset.element_spec()),
            "{'image': TensorSpec(shape=(None, 3, 4, 5), dtype=torch.float16), "
            "'label': TensorSpec(shape=(None,), dtype=torch.int64)}");
  EXPECT_EQ(dataset.cardinality(), 3);
  EXPECT_EQ(dataset.node()->batch_size(), 2);
}

TEST(NormalizeImages, DescribesItself) {
  EXPECT_TRUE(has(images(1).normalize_images(kMean, kStd).explain(),
                  "normalize_images(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], "
                  "dtype=float32, layout=NCHW)"));
}

TEST(NormalizeImages, RefusesWhatItCannotDo) {
  const Dataset dataset = images(2);
  EXPECT_EQ(message_of<c10::ValueError>([&] { dataset.normalize_images({}, {}); }),
            "normalize_images: `mean` must have an entry for each channel, but is empty.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { dataset.normalize_images({0.5}, {1, 1}); }),
            "normalize_images: `mean` and `std` must have as many entries, but have 1 and 2.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { dataset.normalize_images({0.5}, {0}); }),
            "normalize_images: `std` must be positive, but one entry is 0.");
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { dataset.normalize_images(kMean, kStd, {.dtype = at::kDouble}); }),
      "normalize_images: `dtype` must be float32, float16 or bfloat16, but is float64.");
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { dataset.normalize_images({0, 0}, {1, 1}); }),
      "normalize_images: `mean` and `std` have 2 entries, one for each channel, but leaf ['image'] of shape "
      "(4, 5, 3) has neither as its last nor as its third last dim 2.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { Dataset::range(3).normalize_images({0}, {1}); }),
            "normalize_images: no leaf is uint8 with at least 3 dims a row: TensorSpec(shape=(), "
            "dtype=torch.int64).");
}

TEST(NormalizeImages, ObeysTheLaws) {
  expect_laws(images(7).batch(3).normalize_images(kMean, kStd));
  expect_laws(images(7).shuffle({.seed = 3}).normalize_images(kMean, kStd).batch(3));
}

}  // namespace
}  // namespace torch_distinput
