// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/values/devices.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/device_count.h"
#include "device/transfer/on_fake_accelerator.h"
#include "fake_accelerator/fake_accelerator.h"
#include "torch_distinput/multi_worker.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

/// Devices as a process sees them that a launcher started.
class Devices : public OnFakeAccelerator {
 protected:
  void TearDown() override {
    ::unsetenv("LOCAL_RANK");
    count_devices_with(c10::kPrivateUse1, nullptr);
    OnFakeAccelerator::TearDown();
  }
  static void see(int devices) {
    count_devices_with(c10::kPrivateUse1, [devices] { return devices; });
  }
  static std::string device_of_rank(const char* local_rank) {
    ::setenv("LOCAL_RANK", local_rank, 1);
    return local_device("Strategy").at(0).str();
  }
};

TEST_F(Devices, TheLocalRankChoosesAmongTheVisibleDevices) {
  EXPECT_EQ(device_of_rank("0"), "fake:0");
  EXPECT_EQ(device_of_rank("1"), "fake:1");
  EXPECT_THROW(device_of_rank("3"), c10::ValueError);
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(local_device("Strategy").at(0).str(), "fake:0");
}

TEST_F(Devices, AProcessThatSeesOneDeviceUsesItWhateverItsRank) {
  see(1);
  EXPECT_EQ(device_of_rank("0"), "fake:0");
  EXPECT_EQ(device_of_rank("3"), "fake:0");
  EXPECT_THROW(find_devices({"fake:3"}, "Strategy"), c10::ValueError) << "named devices must exist";
}

TEST_F(Devices, AProcessThatSeesNoDeviceUsesTheHost) {
  see(0);
  EXPECT_EQ(device_of_rank("3"), "cpu");
  EXPECT_EQ(all_devices().at(0).str(), "cpu");
}

TEST_F(Devices, DescribingADistributionDoesNotCallTheDriver) {
  see(2);
  ::setenv("LOCAL_RANK", "1", 1);
  fake::reset();
  const Dataset dataset = Dataset::range(40).batch(8);
  for (const Strategy& strategy : std::vector<Strategy>{OneDeviceStrategy("fake:1"), MirroredStrategy(),
                                                        MirroredStrategy({"fake:0", "fake:1"})}) {
    const DistributedDataset distributed = strategy.distribute_dataset(dataset);
    EXPECT_EQ(distributed.num_steps(), 5);
    distributed.element_spec();
  }
  EXPECT_EQ(local_device("Strategy").at(0).str(), "fake:1");
  const fake::Counts counts = fake::counts();
  EXPECT_EQ(counts.driver_calls, 0);
  EXPECT_EQ(counts.device_allocations + counts.host_allocations + counts.copies, 0);
}

}  // namespace
}  // namespace torch_distinput
