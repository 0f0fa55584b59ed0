// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// How the main library finds and uses the CUDA library, with a fake one that needs no GPU (tests/fake_cuda).
#include "device/cuda_library.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/distributed_dataset.h"
#include "device/transfer/device_node.h"
#include "device/transfer/device_stager.h"
#include "fake_cuda/fake_cuda.h"
#include "fake_cuda/fake_driver.h"

namespace torch_distinput {
namespace {

const c10::Device kFirst(c10::kCUDA, 0);
const c10::Device kSecond(c10::kCUDA, 1);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaLibrary, IsFoundBesideThisOne) {
  ASSERT_NE(cuda_library().functions, nullptr) << cuda_library().missing_because;
  EXPECT_TRUE(cuda_library().built);
  EXPECT_EQ(cuda_library().missing_because, "");
}

TEST(CudaLibrary, AnAbsentLibraryIsDistinguishedFromADamagedOne) {
  const CudaLibrary absent = load_cuda_library("/nowhere/libtorch_distinput_cuda.so");
  EXPECT_EQ(absent.functions, nullptr);
  EXPECT_FALSE(absent.built);
  EXPECT_TRUE(contains(absent.missing_because, "was not built"));

  const std::string damaged_path =
      testing::TempDir() + std::to_string(::getpid()) + "_damaged_cuda_library.so";
  std::ofstream(damaged_path) << "no library";
  const CudaLibrary damaged = load_cuda_library(damaged_path);
  std::remove(damaged_path.c_str());
  EXPECT_EQ(damaged.functions, nullptr);
  EXPECT_TRUE(damaged.built);
  EXPECT_TRUE(contains(damaged.missing_because, "cannot be loaded")) << damaged.missing_because;

  const CudaLibrary another = load_cuda_library("libcuda.so.1");
  EXPECT_EQ(another.functions, nullptr);
}

TEST(CudaLibrary, SaysWhyItCannotUseADevice) {
  EXPECT_EQ(cuda_library_obstacle(kSecond), "");
  EXPECT_EQ(unpacking_obstacle(kSecond, 3), "");
  EXPECT_EQ(delivery_limits(kSecond), "");
  fake_cuda::set_device_error(1, fake_cuda::kNoKernelImage);
  for (const std::string& text :
       {cuda_library_obstacle(kSecond), unpacking_obstacle(kSecond, 3), delivery_limits(kSecond)})
    EXPECT_TRUE(contains(text, "cuda:1: no kernel image")) << text;
  EXPECT_EQ(unpacking_obstacle(kFirst, 3), "") << "each device is checked separately";
  fake_cuda::set_device_error(1, 0);
  EXPECT_TRUE(contains(unpacking_obstacle(kFirst, 17), "more than 16 channels"));
}

/// The text of `explain` for one replica on the second device.
std::string explained(const Dataset& dataset) {
  Distribution distribution;
  distribution.assignment =
      assign_rows(dataset.node(), AutoShardPolicy::kAuto, Replicas{1, 0, 1}, Split::kTf, {});
  distribution.devices = {kSecond};
  distribution.node = dataset.node();
  distribution.spec = dataset.node()->spec();
  return explain(distribution, nullptr, std::nullopt);
}

TEST(CudaLibrary, AnUnusableLibraryIsExplainedAndTheHostNormalizes) {
  const at::Tensor images = at::zeros({8, 4, 4, 3}, at::kByte);
  const Dataset dataset =
      Dataset::from_tensor_slices(Element(images)).batch(4).normalize_images({0.5, 0.5, 0.5}, {1, 1, 1});
  EXPECT_TRUE(contains(explained(dataset), "normalize_images: done by the devices"));
  EXPECT_FALSE(contains(explained(dataset), "delivery:"));
  fake_cuda::set_device_error(1, fake_cuda::kInsufficientDriver);
  const std::string text = explained(dataset);
  fake_cuda::set_device_error(1, 0);
  EXPECT_TRUE(contains(text, "delivery: the CUDA library cannot use cuda:1: CUDA driver version is insuff"))
      << text;
  EXPECT_TRUE(contains(text, "normalize_images: done on the host: the CUDA library cannot use cuda:1"))
      << text;
}

TEST(CudaLibrary, ExchangesCaptureModesWithoutSettingUpADevice) {
  int mode = 2;
  EXPECT_EQ(cuda_library().functions->exchange_capture_mode(&mode), 0);
  EXPECT_EQ(mode, 0);
  EXPECT_EQ(fake_driver::capture_mode(), 2);
  EXPECT_EQ(cuda_library().functions->exchange_capture_mode(&mode), 0);
  EXPECT_EQ(fake_driver::capture_mode(), 0);
  EXPECT_FALSE(fake_driver::has_context(0));
}

TEST(CudaLibrary, MakesStreamsOnTheGivenDeviceAndRestoresTheThreadsDevice) {
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(cuda_library().functions->new_stream(1, &first), 0);
  EXPECT_EQ(cuda_library().functions->new_stream(1, &second), 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(fake_driver::device_of(first), 1);
  EXPECT_TRUE(fake_driver::is_non_blocking(first));
  EXPECT_FALSE(fake_driver::has_context(0));
  EXPECT_EQ(fake_driver::current_device(), -1);
  EXPECT_EQ(cuda_library().functions->new_stream(7, &first), fake_driver::kInvalidDevice);
}

TEST(CudaLibrary, TellsTheNumaNodeOfADevice) {
  const auto sysfs = std::filesystem::path(testing::TempDir()) / ("nodes_" + std::to_string(::getpid()));
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((sysfs / path).parent_path());
    std::ofstream(sysfs / path) << text;
  };
  write("bus/pci/devices/0000:40:00.0/numa_node", "1\n");
  write("devices/system/node/node0/cpulist", "0\n");
  EXPECT_EQ(node_of_device(kFirst, sysfs), std::nullopt) << "of one node";
  write("devices/system/node/node1/cpulist", "1\n");
  EXPECT_EQ(node_of_device(kFirst, sysfs), 1);
  EXPECT_EQ(node_of_device(kSecond, sysfs), std::nullopt) << "of which the kernel knows none";
  EXPECT_EQ(node_of_device({c10::kCUDA, 7}, sysfs), std::nullopt) << "which is not there";
  EXPECT_EQ(node_of_device(c10::kCPU, sysfs), std::nullopt);
  std::filesystem::remove_all(sysfs);
}

TEST(CudaLibrary, KnowsWhichStreamsRecordGraphs) {
  int status = -1;
  EXPECT_EQ(cuda_library().functions->capture_status(nullptr, &status), 0) << "needs no context";
  EXPECT_EQ(status, 0) << "the default stream never records";
  void* stream = nullptr;
  ASSERT_EQ(cuda_library().functions->new_stream(1, &stream), 0);
  for (const int wanted : {0, 1, 2}) {
    fake_driver::set_capture_status(stream, wanted);
    EXPECT_EQ(cuda_library().functions->capture_status(stream, &status), 0);
    EXPECT_EQ(status, wanted);
  }
}

}  // namespace
}  // namespace torch_distinput
