// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/host.hpp"

#include "doctor/facts/limits.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HostFacts good_host() {
  HostFacts facts;
  facts.online = facts.allowed = 16;
  facts.features = {"avx", "avx2", "fma"};
  facts.compiled_for = {"avx", "avx2"};
  facts.is_native = true;
  facts.governor = "performance";
  return facts;
}

TEST(DoctorHost, a_good_host_has_no_advice) {
  EXPECT_EQ(worst_of(host_lines(good_host())), Level::ok);
  EXPECT_EQ(host_lines(good_host()).size(), 4U);
}

TEST(DoctorHost, kernels_for_another_processor_are_bad) {
  auto facts = good_host();
  facts.compiled_for.emplace_back("avx512f");
  auto const line = the_line(host_lines(facts), "instruction-set");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(line.advice, HasSubstr("lacks avx512f"));
  EXPECT_THAT(line.advice, HasSubstr("-DMSSTREAM_NATIVE_ARCH=OFF"));
  // A system that does not show its processor's features is not accused.
  facts.features.clear();
  EXPECT_EQ(level_of(host_lines(facts), "instruction-set"), Level::ok);
}

TEST(DoctorHost, wider_instructions_that_a_portable_build_leaves_are_noted) {
  auto facts = good_host();
  facts.compiled_for.clear();
  facts.is_native = false;
  EXPECT_EQ(level_of(host_lines(facts), "instruction-set"), Level::note);
  facts.features = {"fpu"};
  EXPECT_EQ(level_of(host_lines(facts), "instruction-set"), Level::ok);
}

TEST(DoctorHost, few_processors_are_told_with_their_cause) {
  auto facts = good_host();
  facts.quota = 2.5;
  auto line = the_line(host_lines(facts), "processors");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("MSSTREAM_HOST_KERNEL_THREADS=2"));
  EXPECT_THAT(line.value, HasSubstr("2.50 of 16"));
  facts.quota = 1;
  EXPECT_EQ(level_of(host_lines(facts), "processors"), Level::slow);
  facts.quota.reset();
  facts.allowed = 8;
  line = the_line(host_lines(facts), "processors");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("bound"));
}

TEST(DoctorHost, several_nodes_and_a_saving_governor_are_noted) {
  auto facts = good_host();
  facts.numa_nodes = facts.allowed_nodes = 2;
  facts.governor = "powersave";
  EXPECT_EQ(level_of(host_lines(facts), "numa"), Level::note);
  EXPECT_EQ(level_of(host_lines(facts), "frequency"), Level::note);
  facts.allowed_nodes = 1;
  EXPECT_EQ(level_of(host_lines(facts), "numa"), Level::ok);
}

LimitFacts good_limits() {
  LimitFacts facts;
  facts.memory_bytes = std::uint64_t{64} << 30U;
  facts.available_bytes = std::uint64_t{32} << 30U;
  facts.open_files = 65'536;
  facts.shared_bytes = std::uint64_t{8} << 30U;
  facts.transparent_huge_pages = "madvise";
  return facts;
}

TEST(DoctorLimits, limits_that_stop_programs_are_told) {
  EXPECT_EQ(worst_of(limit_lines(good_limits())), Level::ok);
  auto facts = good_limits();
  facts.address_bytes = std::uint64_t{16} << 30U;
  EXPECT_EQ(level_of(limit_lines(facts), "address-space"), Level::note);
  facts.is_cuda_build = true;  // CUDA does not start
  EXPECT_EQ(level_of(limit_lines(facts), "address-space"), Level::bad);
  facts = good_limits();
  facts.shared_bytes = std::uint64_t{64} << 20U;  // as in containers
  EXPECT_EQ(level_of(limit_lines(facts), "shared-memory"), Level::note);
  facts.locked_bytes = 65'536;
  EXPECT_EQ(level_of(limit_lines(facts), "locked-memory"), Level::note);
  facts.open_files = 256;
  facts.most_open_files = 4096;
  EXPECT_THAT(the_line(limit_lines(facts), "open-files").advice, HasSubstr("Set ulimit -n 4096."));
  facts.threads = 100;
  EXPECT_EQ(level_of(limit_lines(facts), "threads"), Level::note);
  facts.group_memory_bytes = std::uint64_t{4} << 30U;
  EXPECT_EQ(level_of(limit_lines(facts), "cgroup-memory"), Level::ok);
  facts.group_used_bytes = *facts.group_memory_bytes - 1000;
  EXPECT_EQ(level_of(limit_lines(facts), "cgroup-memory"), Level::note);
  facts.transparent_huge_pages = "never";
  EXPECT_EQ(level_of(limit_lines(facts), "huge-pages"), Level::note);
}

TEST(DoctorLimits, no_limit_is_advised_that_the_process_cannot_set) {
  auto facts = good_limits();
  facts.open_files = facts.most_open_files = 512;
  auto const line = the_line(limit_lines(facts), "open-files");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, Not(HasSubstr("Set ulimit")));
  EXPECT_THAT(line.advice, HasSubstr("The hard limit (ulimit -Hn) is no greater"));
  EXPECT_THAT(line.advice, HasSubstr("nofile=65536"));
  facts.most_open_files.reset();  // unlimited
  EXPECT_THAT(the_line(limit_lines(facts), "open-files").advice, HasSubstr("Set ulimit -n 65536."));
}

}  // namespace
}  // namespace msstream::doctor
