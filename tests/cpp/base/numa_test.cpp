// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/numa.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/shared_segment.h"

namespace torch_distinput {
namespace {

constexpr int kBits = 1024;

struct Placing {
  int mode = -1;
  std::array<unsigned long, kBits / 64> nodes{};
};

/// How this thread, or the memory at `address`, is placed; mode -1 where the system does not tell.
Placing placing(void* address = nullptr) {
  Placing now;
  const int flags = address == nullptr ? 0 : MPOL_F_ADDR;
  if (::syscall(SYS_get_mempolicy, &now.mode, now.nodes.data(), kBits, address, flags) != 0) now.mode = -1;
  return now;
}

bool no_policies() { return placing().mode < 0; }

class NumaFiles : public testing::Test {
 protected:
  ~NumaFiles() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string root() const { return root_; }

 private:
  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      ("numa_" + std::to_string(::getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(NumaFiles, TellTheCpusOfEachNode) {
  write("devices/system/node/node1/cpulist", "4-6,9\n");
  write("devices/system/node/node0/cpulist", "0-3\n");
  write("devices/system/node/node10/cpulist", "\n");
  write("devices/system/node/online", "0-1,10\n");
  write("devices/system/node/nodes/cpulist", "99\n");
  const std::map<int, std::vector<int>> expected{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 9}}, {10, {}}};
  EXPECT_EQ(cpus_of_nodes(root()), expected);
  EXPECT_TRUE(cpus_of_nodes(root() + "/nowhere").empty());
}

TEST_F(NumaFiles, TellTheNodeOfADevice) {
  write("bus/pci/devices/0000:41:00.0/numa_node", "1\n");
  write("bus/pci/devices/0000:c1:00.0/numa_node", "-1\n");
  EXPECT_EQ(node_of_pci_device("0000:41:00.0", root()), 1);
  EXPECT_EQ(node_of_pci_device("0000:c1:00.0", root()), std::nullopt);
  EXPECT_EQ(node_of_pci_device("0000:99:00.0", root()), std::nullopt);
}

TEST(NodeScope, PlacesTheThreadsMemoryAndThenAsBefore) {
  if (no_policies()) GTEST_SKIP() << "the system places memory by itself";
  const Placing before = placing();
  {
    const NodeScope scope(0);
    ASSERT_TRUE(scope.placed());
    EXPECT_EQ(placing().mode, MPOL_PREFERRED);
    EXPECT_EQ(placing().nodes[0], 1U);
    {
      const NodeScope inner(std::nullopt);
      EXPECT_FALSE(inner.placed());
      EXPECT_EQ(placing().mode, MPOL_PREFERRED);
    }
  }
  EXPECT_EQ(placing().mode, before.mode);
  EXPECT_EQ(placing().nodes, before.nodes);
}

TEST(NodeScope, LeavesMemoryAloneForANodeThatIsNotThere) {
  const Placing before = placing();
  for (const int node : {-1, 1023, 1024, 1 << 30}) {
    const NodeScope scope(node);
    EXPECT_FALSE(scope.placed()) << node;
    EXPECT_EQ(placing().mode, before.mode);
  }
}

TEST(PlaceOnNode, HoldsForAllWhoShareTheMemory) {
  if (no_policies()) GTEST_SKIP() << "the system places memory by itself";
  const SharedSegment segment(std::uint64_t{1} << 24);
  ASSERT_TRUE(place_on_node(segment.data(), segment.size(), 0));
  const SharedSegment other = SharedSegment::attach(::dup(segment.fd()));
  EXPECT_EQ(placing(other.data()).mode, MPOL_PREFERRED);
  EXPECT_FALSE(place_on_node(segment.data(), segment.size(), -1));
  EXPECT_FALSE(place_on_node(segment.data(), segment.size(), 1023));
}

}  // namespace
}  // namespace torch_distinput
