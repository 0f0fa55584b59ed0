// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// `normalize_images` after the copy, on the fake accelerator: the results are those of the host, and only
/// bytes are copied.
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "device/transfer/on_fake_accelerator.h"
#include "fake_accelerator/fake_accelerator.h"
#include "support/errors.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kPixels = 4 * 6 * 3;
const std::vector<double> kMean{0.485, 0.456, 0.406};
const std::vector<double> kStd{0.229, 0.224, 0.225};

class Unpacking : public OnFakeAccelerator {};

/// Images of 4 by 6 pixels, labelled with their numbers.
Dataset rows(std::int64_t count) {
  const at::Tensor bytes = at::arange(count * kPixels).remainder(251).to(at::kByte);
  return Dataset::from_tensor_slices(
      Element::dict({{"image", bytes.view({count, 4, 6, 3})}, {"label", at::arange(count)}}));
}

/// Batches of 8 of them.
Dataset images(std::int64_t count) { return rows(count).batch(8); }

/// The images of each replica in each step, on the host.
std::vector<at::Tensor> delivered(const DistributedDataset& dataset) {
  std::vector<at::Tensor> all;
  for (const PerReplica& step : dataset)
    for (const Element& part : step) all.push_back(part.tensor(0).cpu());
  return all;
}

void expect_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].scalar_type(), others[i].scalar_type());
    EXPECT_TRUE(at::equal(some[i], others[i])) << "part " << i;
  }
}

const MirroredStrategy kHosts({"cpu:0", "cpu:1"});

TEST_F(Unpacking, GivesTheSameBitsInEveryDtypeAndLayoutAndCopiesBytes) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto layout : {ImageLayout::kNchw, ImageLayout::kNhwc}) {
      const Dataset dataset = images(21).normalize_images(kMean, kStd, {.dtype = dtype, .layout = layout});
      const auto expected = delivered(kHosts.distribute_dataset(dataset));
      fake::reset();
      auto iterator = both_devices().distribute_dataset(dataset).iterate();
      std::vector<at::Tensor> seen;
      std::vector<PerReplica> kept;
      while (const auto step = iterator.next()) kept.push_back(*step);
      // Nothing was copied back yet: 21 images and labels, at aligned offsets, were copied to the devices.
      EXPECT_GE(fake::counts().copied_bytes, 21 * kPixels);
      EXPECT_LE(fake::counts().copied_bytes, 21 * (kPixels + 8) + 6 * 256);
      for (const PerReplica& step : kept)
        for (const Element& part : step) seen.push_back(part["image"].tensor().cpu());
      expect_same(seen, expected);
    }
  }
}

TEST_F(Unpacking, ReplicasWithoutRowsGetImagesOfTheSameType) {
  auto iterator = both_devices().distribute_dataset(images(9).normalize_images(kMean, kStd)).iterate();
  iterator.get_next();
  const at::Tensor none = iterator.get_next()[1]["image"].tensor();
  EXPECT_EQ(none.sizes(), at::IntArrayRef({0, 3, 4, 6}));
  EXPECT_EQ(none.scalar_type(), at::kFloat);
  EXPECT_EQ(none.device(), c10::Device(c10::kPrivateUse1, 1));
}

TEST_F(Unpacking, NeverWaitsOnTheHost) {
  OneDeviceStrategy strategy("fake:1");
  // No more steps are in flight at a time than the stager reserves memory for.
  const Dataset dataset = images(8 * 60).normalize_images(kMean, kStd).with_options({.prefetch = 4});
  auto iterator = strategy.distribute_dataset(dataset).iterate();
  for (int step = 0; step < 20; ++step) {
    iterator.get_next();
    fake::drain();
  }
  fake::reset();
  while (iterator.next()) fake::drain();
  EXPECT_EQ(fake::counts().host_waits, 0);
  // Threads may get further ahead than in the first steps, but not with each step.
  EXPECT_LE(fake::counts().device_allocations, 2);
  EXPECT_LE(fake::counts().host_allocations, 2);
  EXPECT_EQ(fake::counts().wrong_device, 0);
}

TEST_F(Unpacking, EachPipelineOfAReplicaHasItsOwnMeanAndStd) {
  const auto make = [](const InputContext& context) {
    return images(12).normalize_images({0.1 * static_cast<double>(context.input_pipeline_id), 0.2, 0.3},
                                       kStd);
  };
  const InputOptions options{.replication_mode = ReplicationMode::kPerReplica};
  expect_same(delivered(both_devices().distribute_datasets_from_function(make, options)),
              delivered(kHosts.distribute_datasets_from_function(make, options)));
}

TEST_F(Unpacking, LaterOpsThatReadElementsKeepItOnTheHost) {
  const auto copied = [](const Dataset& dataset) {
    fake::reset();
    const DistributedDataset there = both_devices().distribute_dataset(dataset);
    auto iterator = there.iterate();
    while (iterator.next()) fake::drain();
    const bool told = there.explain().find("normalize_images: done by the devices") != std::string::npos;
    EXPECT_EQ(told, fake::counts().copied_bytes < 2 * 16 * kPixels);
    return fake::counts().copied_bytes;
  };
  const Dataset normalized = images(16).normalize_images(kMean, kStd);
  const auto same = make_function([](Element element) { return element; });
  EXPECT_LT(copied(normalized.prefetch(2).take(9).with_options({.num_threads = 1})), 2 * 16 * kPixels);
  EXPECT_LT(copied(normalized.shuffle({.buffer_size = 4, .seed = 1})), 2 * 16 * kPixels);
  EXPECT_GE(copied(normalized.map(same)), 4 * 16 * kPixels);
  EXPECT_GE(copied(normalized.unbatch().batch(8)), 4 * 16 * kPixels);
}

TEST_F(Unpacking, RowsNormalizedBeforeTheyAreBatchedCrossAsBytes) {
  const Dataset normalized = rows(29).normalize_images(kMean, kStd);
  const Dataset pipelines[] = {
      normalized.batch(8),
      normalized.batch(8, {.drop_remainder = true}),
      normalized.shuffle({.seed = 3}).skip(3).batch(4),
      normalized.shuffle({.buffer_size = 5, .seed = 3}).batch(8),
      normalized.select(at::arange(28, -1, -1).slice(0, 0, 29, 2).clone()).batch(6).prefetch(1),
  };
  for (const Dataset& dataset : pipelines) {
    const DistributedDataset there = both_devices().distribute_dataset(dataset);
    EXPECT_TRUE(has(there.explain(), "normalize_images: done by the devices")) << dataset.node()->describe();
    expect_same(delivered(there), delivered(kHosts.distribute_dataset(dataset)));
  }
}

TEST_F(Unpacking, RowsJoinedOtherwiseThanByBatchAreUnpackedOnTheHost) {
  const Dataset normalized = rows(20).normalize_images(kMean, kStd);
  const Dataset pipelines[] = {normalized.padded_batch(8), normalized.batch(2).batch(4)};
  for (const Dataset& dataset : pipelines) {
    const DistributedDataset there = both_devices().distribute_dataset(dataset);
    EXPECT_FALSE(has(there.explain(), "done by the devices")) << dataset.node()->describe();
    expect_same(delivered(there), delivered(kHosts.distribute_dataset(dataset)));
  }
}

TEST_F(Unpacking, ImagesThatAreSplitThemselvesAreUnpackedOnTheHost) {
  const at::Tensor bytes = at::arange(3 * kPixels).to(at::kByte).view({3, 4, 6, 3});
  const Dataset dataset = Dataset::from_tensor_slices(Element(bytes)).normalize_images(kMean, kStd);
  expect_same(delivered(both_devices().distribute_dataset(dataset)),
              delivered(kHosts.distribute_dataset(dataset)));
}

TEST_F(Unpacking, ImagesWithUnknownChannelsAreUnpackedOnTheHost) {
  const TensorSpec image{Dims{kUnknownDim, kUnknownDim, kUnknownDim}, at::kByte, {}};
  const Dataset dataset = Dataset::from_generator(
                              [] {
                                int left = 4;
                                return [left]() mutable -> std::optional<Element> {
                                  if (left-- == 0) return std::nullopt;
                                  return Element(at::arange(kPixels).to(at::kByte).view({4, 6, 3}));
                                };
                              },
                              ElementSpec{Structure::leaf(), {image}})
                              .batch(2)
                              .normalize_images(kMean, kStd);
  OneDeviceStrategy strategy("fake:1");
  EXPECT_FALSE(has(strategy.distribute_dataset(dataset).explain(), "done by the devices"));
  for (const PerReplica& step : strategy.distribute_dataset(dataset))
    EXPECT_EQ(step[0].tensor().sizes(), at::IntArrayRef({2, 3, 4, 6}));
}

TEST_F(Unpacking, PositionsAreTheSameAsOnTheHost) {
  const Dataset before_batch = rows(40).normalize_images(kMean, kStd).shuffle({.buffer_size = 9}).batch(8);
  for (const Dataset& dataset : {images(40).normalize_images(kMean, kStd), before_batch}) {
    for (const bool stream_only : {false, true}) {
      auto there = both_devices().distribute_dataset(dataset).iterate(
          {.epoch = 0, .seed = 1, .stream_only = stream_only});
      auto here =
          kHosts.distribute_dataset(dataset).iterate({.epoch = 0, .seed = 1, .stream_only = stream_only});
      for (int step = 0; step < 2; ++step) {
        there.get_next();
        here.get_next();
      }
      EXPECT_EQ(there.save(), here.save());
      auto resumed = kHosts.distribute_dataset(dataset).iterate({.stream_only = stream_only});
      resumed.load(there.save());
      EXPECT_TRUE(at::equal(resumed.get_next()[1]["image"].tensor(), here.get_next()[1]["image"].tensor()));
    }
  }
}

}  // namespace
}  // namespace torch_distinput
