// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/cpus.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

/// Files of a process and of its control groups, as the kernel writes them.
class CpuQuotaTest : public testing::Test {
 protected:
  CpuQuotaTest() { std::filesystem::create_directories(process()); }
  ~CpuQuotaTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  /// A mount of the group `top` at `path`.
  void mount(const std::string& path, const std::string& top, const std::string& kind,
             const std::string& options) {
    std::ofstream(root_ / "proc" / "mountinfo", std::ios::app)
        << "24 22 0:21 / /proc rw,relatime - proc proc rw\n31 23 0:28 " << top << ' '
        << (root_ / path).string() << " rw,nosuid shared:9 - " << kind << " cgroup " << options << '\n';
  }
  std::string process() const { return root_ / "proc"; }

 private:
  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      ("cpus_" + std::to_string(::getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CpuQuotaTest, IsTheLeastOfTheGroupsThatCanBeSeen) {
  mount("groups", "/", "cgroup2", "rw,nsdelegate");
  write("proc/cgroup", "0::/pods/one/main\n");
  write("groups/pods/one/main/cpu.max", "max 100000\n");
  write("groups/pods/one/cpu.max", "150000 100000\n");
  write("groups/pods/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(process()), 1.5);
}

TEST_F(CpuQuotaTest, IsFoundWhereAContainerSeesThePathOfItsHost) {
  mount("groups", "/docker/abc", "cgroup2", "rw");
  write("proc/cgroup", "0::/docker/abc\n");
  write("groups/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(process()), 0.5);
  write("proc/cgroup", "0::/../other\n");
  EXPECT_EQ(cpu_quota(process()), 0.5);
}

TEST_F(CpuQuotaTest, IsReadFromVersion1) {
  mount("groups/memory", "/", "cgroup", "rw,memory");
  mount("groups/cpu", "/", "cgroup", "rw,cpu,cpuacct");
  write("proc/cgroup", "9:memory:/a\n4:cpu,cpuacct:/b\n0::/\n");
  write("groups/cpu/b/cpu.cfs_quota_us", "250000\n");
  write("groups/cpu/b/cpu.cfs_period_us", "100000\n");
  write("groups/cpu/cpu.cfs_quota_us", "-1\n");
  write("groups/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(process()), 2.5);
}

TEST_F(CpuQuotaTest, IsNoneWithoutALimit) {
  EXPECT_EQ(cpu_quota(process()), std::nullopt);
  mount("groups", "/", "cgroup2", "rw");
  write("proc/cgroup", "nonsense\n0::/a\n");
  EXPECT_EQ(cpu_quota(process()), std::nullopt);
  for (const char* const text : {"max 100000\n", "", "0 0\n", "-1 100000\n", "many 1\n"}) {
    write("groups/a/cpu.max", text);
    EXPECT_EQ(cpu_quota(process()), std::nullopt) << text;
  }
}

TEST(AvailableCpusTest, AreThoseOfTheMaskWhereNoQuotaIsLess) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  const auto quota = cpu_quota();
  EXPECT_GE(available_cpus(), 1);
  EXPECT_LE(available_cpus(), CPU_COUNT(&mask));
  if (!quota) {
    EXPECT_EQ(available_cpus(), CPU_COUNT(&mask));
  }
}

}  // namespace
}  // namespace torch_distinput
