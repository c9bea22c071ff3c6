// SPDX-License-Identifier: Apache-2.0
// Reads made-up /proc and /sys of other computers.
#include "doctor/facts/system_files.hpp"

#include "base/temporary_folder.hpp"
#include "doctor/facts/host.hpp"
#include "doctor/facts/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace msstream::doctor {
namespace {

class SystemFiles : public ::testing::Test {
 protected:
  void write(std::string_view name, std::string_view text) const {
    auto const file = root() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] std::filesystem::path const& root() const { return folder_.path(); }

 private:
  msstream::testing::TemporaryFolder folder_;
};

TEST_F(SystemFiles, a_value_is_that_of_its_whole_key) {
  EXPECT_EQ(value_after("flags2: a\nflags\t\t: fpu avx2 \nflags: other\n", "flags"), "fpu avx2");
  EXPECT_EQ(value_after("RmProfilingAdminOnly: 1", "RmProfilingAdminOnly"), "1");
  EXPECT_EQ(value_after("a: 1\n", "b"), "");
  EXPECT_EQ(value_after("a:\n", "a"), "");
}

TEST_F(SystemFiles, processors_are_those_of_affinity_and_control_groups) {
  write("proc/cpuinfo", "processor : 0\nmodel name : A fast one\nflags : fpu avx avx2\n");
  write("proc/self/status", "Name: x\nCpus_allowed_list:\t0-3,8\n");
  write("sys/devices/system/cpu/online", "0-15\n");
  write("sys/devices/system/node/node0/cpulist", "0-7\n");
  write("sys/devices/system/node/node1/cpulist", "8-15\n");
  write("sys/devices/system/node/node2/cpulist", "16-31\n");
  write("sys/devices/system/node/possible", "0-2\n");
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  write("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  auto const facts = read_host(root());
  EXPECT_EQ(facts.model, "A fast one");
  EXPECT_THAT(facts.features, ::testing::UnorderedElementsAre("fpu", "avx", "avx2"));
  EXPECT_EQ(facts.online, 16);
  EXPECT_EQ(facts.allowed, 5);
  EXPECT_EQ(facts.quota, 2.5);  // of the group above
  EXPECT_EQ(facts.numa_nodes, 3);
  EXPECT_EQ(facts.allowed_nodes, 2);
  EXPECT_EQ(usable_processors(facts), 2.5);
}

TEST_F(SystemFiles, groups_of_version_1_limit_too) {
  write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/\n");
  write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 500 kB\nHugePages_Total: 7\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "204800\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  auto const facts = read_limits(root());
  EXPECT_EQ(facts.group_memory_bytes, 204'800);
  EXPECT_EQ(facts.group_used_bytes, 1024);
  EXPECT_EQ(facts.memory_bytes, 1'024'000);
  EXPECT_EQ(facts.huge_pages, 7);
  EXPECT_EQ(facts.transparent_huge_pages, "madvise");
  EXPECT_EQ(facts.shared_bytes, 0);
  EXPECT_FALSE(read_host(root()).quota.has_value());
}

TEST_F(SystemFiles, a_limit_beyond_all_memory_is_none) {
  write("proc/self/cgroup", "0::/\n");
  write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 500 kB\n");
  write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  write("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  EXPECT_FALSE(read_limits(root()).group_memory_bytes.has_value());
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_FALSE(read_limits(root()).group_memory_bytes.has_value());
}

TEST_F(SystemFiles, an_empty_system_has_one_processor_at_least) {
  auto const facts = read_host(root());
  EXPECT_GE(facts.online, 1);
  EXPECT_EQ(facts.allowed, facts.online);
  EXPECT_EQ(facts.numa_nodes, 1);
  EXPECT_FALSE(facts.quota.has_value());
}

}  // namespace
}  // namespace msstream::doctor
