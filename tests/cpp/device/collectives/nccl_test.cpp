// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// The CUDA library's calls of NCCL, with a fake NCCL that needs no GPU (tests/fake_nccl).
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda/collectives.h"
#include "fake_nccl/fake_nccl.h"

namespace torch_distinput {
namespace {

template <class Number>
struct Parts {
  std::vector<std::vector<Number>> from;
  std::vector<std::vector<Number>> to;
  std::vector<DevicePart> parts;

  /// Part i sends `counts[i]` random numbers; its `to` has room for `room[i]`.
  Parts(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& room, std::mt19937& random) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      from.emplace_back();
      for (std::size_t n = 0; n < counts[i]; ++n) from.back().push_back(static_cast<Number>(random() % 1000));
      to.emplace_back(room[i]);
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      parts.push_back({.device = static_cast<std::int32_t>(i),
                       .stream = nullptr,
                       .from = from[i].data(),
                       .to = to[i].data(),
                       .count = static_cast<std::int64_t>(counts[i])});
    }
  }
  std::int32_t size() const { return static_cast<std::int32_t>(parts.size()); }
  std::vector<Number> sum() const {
    std::vector<Number> total(from.front().size());
    for (const auto& one : from)
      for (std::size_t n = 0; n < one.size(); ++n) total[n] += one[n];
    return total;
  }
};

template <class Number>
void check_sums(NumberType type) {
  std::mt19937 random(1);
  for (std::size_t devices = 2; devices <= 5; ++devices) {
    const std::vector<std::size_t> counts(devices, 1 + random() % 20);
    Parts<Number> everywhere(counts, counts, random);
    ASSERT_EQ(nccl_all_reduce(everywhere.parts.data(), everywhere.size(), type), 0);
    for (const auto& sum : everywhere.to) EXPECT_EQ(sum, everywhere.sum());
    for (std::size_t root = 0; root < devices; ++root) {
      Parts<Number> one(counts, counts, random);
      ASSERT_EQ(nccl_reduce(one.parts.data(), one.size(), type, static_cast<std::int32_t>(root)), 0);
      for (std::size_t i = 0; i < devices; ++i)
        EXPECT_EQ(one.to[i], i == root ? one.sum() : std::vector<Number>(counts[i]));
    }
  }
}

TEST(Nccl, ReducesToEveryDeviceOrToOne) {
  check_sums<float>(NumberType::kFloat);
  check_sums<std::int64_t>(NumberType::kInt64);
}

TEST(Nccl, GathersPartsOfAnyLengthOnOneDevice) {
  std::mt19937 random(2);
  for (std::size_t devices = 2; devices <= 5; ++devices) {
    for (std::size_t root = 0; root < devices; ++root) {
      std::vector<std::size_t> counts;
      for (std::size_t i = 0; i < devices; ++i) counts.push_back(random() % 4 == 0 ? 0 : random() % 30);
      Parts<std::uint8_t> bytes(counts, counts, random);
      ASSERT_EQ(nccl_gather(bytes.parts.data(), bytes.size(), static_cast<std::int32_t>(root)), 0);
      EXPECT_EQ(bytes.to, bytes.from);
    }
  }
}

TEST(Nccl, DevicesAreConnectedOnce) {
  const std::vector<std::int32_t> devices{7, 5, 6};
  const auto before = fake_nccl::comms_made();
  for (int time = 0; time < 3; ++time) EXPECT_EQ(nccl_init(devices.data(), 3), 0);
  EXPECT_EQ(fake_nccl::comms_made(), before + 3);
}

TEST(Nccl, AFailedConnectionIsNotTriedAgain) {
  const std::vector<std::int32_t> twice{9, 9};
  const auto before = fake_nccl::rendezvous_of_all();
  const int error = nccl_init(twice.data(), 2);
  EXPECT_NE(error, 0);
  std::mt19937 random(4);
  Parts<float> two({3, 3}, {3, 3}, random);
  for (DevicePart& part : two.parts) part.device = 9;
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(nccl_init(twice.data(), 2), error);
    EXPECT_EQ(nccl_all_reduce(two.parts.data(), two.size(), NumberType::kFloat), error);
  }
  EXPECT_EQ(fake_nccl::rendezvous_of_all(), before + 1);
}

TEST(Nccl, ErrorsAreDistinguishedFromThoseOfCuda) {
  const std::vector<std::int32_t> twice{3, 3};
  const int error = nccl_init(twice.data(), 2);
  EXPECT_TRUE(is_collective_error(error));
  EXPECT_STREQ(collective_error_text(error), "invalid argument");
  std::mt19937 random(3);
  Parts<float> uneven({3, 4}, {3, 4}, random);
  EXPECT_STREQ(collective_error_text(nccl_all_reduce(uneven.parts.data(), 2, NumberType::kFloat)),
               "invalid usage");
  Parts<float> even({3, 3}, {3, 3}, random);
  EXPECT_EQ(nccl_all_reduce(even.parts.data(), 2, NumberType::kFloat), 0)
      << "a failed call must not affect the next one";
}

}  // namespace
}  // namespace torch_distinput
