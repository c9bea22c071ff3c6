// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/features.hpp"

#include "base/temporary_folder.hpp"
#include "doctor/facts/libraries.hpp"
#include "doctor/facts/shared_library.hpp"
#include "find_line.hpp"
#include "overlap/record/cupti_files.hpp"
#include "trace/counter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msstream::doctor {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

FeatureFacts all_features() {
  FeatureFacts facts;
  for (auto FeatureFacts::*feature : {&FeatureFacts::concurrent_kernels,
                                      &FeatureFacts::priorities,
                                      &FeatureFacts::pages,
                                      &FeatureFacts::memory_pools,
                                      &FeatureFacts::green_contexts,
                                      &FeatureFacts::green_streams,
                                      &FeatureFacts::host_access,
                                      &FeatureFacts::graph_updates,
                                      &FeatureFacts::multicast,
                                      &FeatureFacts::fp8_products}) {
    facts.*feature = Available::yes;
  }
  facts.copy_engines = 3;
  facts.most_sm_parts = 16;
  return facts;
}

TEST(DoctorFeatures, a_device_with_all_has_no_advice) {
  EXPECT_EQ(worst_of(feature_lines(all_features())), Level::ok);
  EXPECT_THAT(the_line(feature_lines(all_features()), "green-contexts").value, HasSubstr("16"));
}

TEST(DoctorFeatures, what_is_missing_is_told_with_the_fallback) {
  auto const none = feature_lines({});
  EXPECT_EQ(level_of(none, "concurrent-kernels"), Level::bad);
  EXPECT_EQ(level_of(none, "copy-engines"), Level::slow);
  for (auto const& line : none) {
    EXPECT_NE(line.advice, "") << line.id;
  }
  auto facts = all_features();
  facts.pages = Available::not_by_device;
  facts.green_streams = Available::not_by_driver;
  auto const lines = feature_lines(facts);
  EXPECT_THAT(the_line(lines, "virtual-memory").value, HasSubstr("device"));
  EXPECT_THAT(the_line(lines, "virtual-memory").advice, HasSubstr("cudaMalloc"));
  EXPECT_THAT(the_line(lines, "green-streams").value, HasSubstr("driver"));
  EXPECT_EQ(tally_of(lines).note, 2);
}

TEST(DoctorFeatures, an_old_driver_does_not_tell_what_the_device_lacks) {
  // Without streams of green contexts, the parts of the device are unknown.
  EXPECT_EQ(green_contexts_of(true, false, 1), Available::not_by_driver);
  EXPECT_EQ(green_contexts_of(false, false, 1), Available::not_by_driver);
  EXPECT_EQ(green_contexts_of(true, true, 1), Available::not_by_device);
  EXPECT_EQ(green_contexts_of(true, true, 16), Available::yes);
}

LibraryFacts good_libraries() {
  LibraryFacts facts;
  facts.is_cuda_build = facts.has_driver = facts.has_cupti = true;
  facts.cupti_subscribe = kCuptiSuccess;
  facts.counters_restricted = false;
  facts.nvtx_counters = true;
  facts.nccl_built_in = true;
  facts.nccl_version = 22'703;
  facts.mpi_built_in = true;
  facts.mpi_version = "Open MPI v4.1.4";
  return facts;
}

TEST(DoctorLibraries, libraries_that_programs_need_are_loaded) {
  auto const of_toolkit = [](int version) {
    return read_libraries({}, 0, version, "/no/such/root").needed;
  };
  EXPECT_TRUE(of_toolkit(0).empty());  // a build for the host needs none
  auto const none = of_toolkit(99'000);
  ASSERT_EQ(none.size(), 2U);
  EXPECT_EQ(none[0].name, "libcudart.so.99");
  EXPECT_THAT(none[1].problem, HasSubstr("libcublasLt.so.99: cannot open"));
  auto facts = good_libraries();
  facts.needed = {{"libcudart.so.13", ""}, {"libcublasLt.so.13", ""}};
  EXPECT_EQ(the_line(library_lines(facts), "cuda-libraries").value,
            "libcudart.so.13, libcublasLt.so.13 can be loaded");
  facts.needed[1].problem = "libcublasLt.so.13: cannot open shared object file";
  auto const line = the_line(library_lines(facts), "cuda-libraries");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_EQ(line.value, "cannot be loaded: " + facts.needed[1].problem);
  EXPECT_THAT(line.advice, HasSubstr("LD_LIBRARY_PATH"));
}

TEST(DoctorLibraries, libraries_that_work_are_ok) {
  auto const lines = library_lines(good_libraries());
  EXPECT_EQ(worst_of(lines), Level::ok);
  EXPECT_EQ(the_line(lines, "nccl").value, "built in, 2.27.3");
}

TEST(DoctorLibraries, tools_that_are_attached_are_told) {
  auto facts = good_libraries();
  EXPECT_EQ(the_line(library_lines(facts), "nvtx").value, "no tool attached");
  facts.cuda_tool.library = "/opt/tool.so";
  EXPECT_EQ(level_of(library_lines(facts), "nvtx"), Level::ok);  // gets calls of CUDA alone
  EXPECT_EQ(the_line(library_lines(facts), "cuda-tool").value, "/opt/tool.so");
  EXPECT_EQ(level_of(library_lines(facts), "cuda-tool"), Level::note);
  facts.nvtx_tool.library = "/opt/ranges.so";
  EXPECT_EQ(the_line(library_lines(facts), "nvtx").value, "sent to /opt/ranges.so");
  EXPECT_THAT(the_line(library_lines(facts), "nvtx").advice, HasSubstr("A tool is attached"));
}

TEST(DoctorLibraries, tools_that_cannot_be_loaded_are_not_attached) {
  auto facts = good_libraries();
  facts.nvtx_tool = {"/bin/true", "/bin/true has no function"};
  facts.cuda_tool = {"/no/such.so", "/no/such.so: cannot open"};
  for (auto const* const id : {"nvtx", "cuda-tool"}) {
    auto const line = the_line(library_lines(facts), id);
    EXPECT_EQ(line.level, Level::note);
    EXPECT_THAT(line.value, HasSubstr(id == std::string("nvtx") ? "/bin/true" : "/no/such.so"));
    EXPECT_THAT(line.advice, HasSubstr("or unset it"));
    EXPECT_THAT(line.advice, Not(HasSubstr("takes longer")));
  }
}

TEST(DoctorLibraries, a_build_for_the_host_has_no_ranges_to_send) {
  auto facts = good_libraries();
  facts.is_cuda_build = false;
  EXPECT_EQ(level_of(library_lines(facts), "nvtx"), Level::ok);
  facts.nvtx_tool.library = facts.cuda_tool.library = "/opt/tool.so";
  for (auto const* const id : {"nvtx", "cuda-tool"}) {
    auto const line = the_line(library_lines(facts), id);
    EXPECT_EQ(line.level, Level::note);
    EXPECT_THAT(line.value, HasSubstr("a build for the host"));
    EXPECT_THAT(line.advice, HasSubstr("has no effect"));
  }
}

TEST(DoctorLibraries, tools_are_loaded_as_programs_load_them) {
  auto const read = [](char const* library) {
    return read_libraries({{"NVTX_INJECTION64_PATH", library}, {"CUDA_INJECTION64_PATH", library}},
                          0,
                          0,
                          "/no/such/root");
  };
  auto const missing = read("/no/such.so");
  EXPECT_EQ(missing.nvtx_tool.library, "/no/such.so");
  EXPECT_EQ(missing.cuda_tool.library, "/no/such.so");
  auto const program = read("/bin/true");
  auto const other = read("libdl.so.2");  // the loader finds it, and it is no tool
#if MSSTREAM_CUDA
  EXPECT_THAT(missing.nvtx_tool.problem, HasSubstr("/no/such.so: cannot open"));
  EXPECT_THAT(missing.cuda_tool.problem, HasSubstr("/no/such.so: cannot open"));
  EXPECT_THAT(program.nvtx_tool.problem, HasSubstr("/bin/true"));
  EXPECT_THAT(program.cuda_tool.problem, HasSubstr("/bin/true"));
  EXPECT_EQ(other.nvtx_tool.problem, "libdl.so.2 has no function InitializeInjectionNvtx2");
  EXPECT_EQ(other.cuda_tool.problem, "libdl.so.2 has no function InitializeInjection");
#else
  EXPECT_EQ(program.nvtx_tool.problem, "");  // a build for the host loads none
  EXPECT_EQ(other.cuda_tool.problem, "");
#endif
}

TEST(DoctorLibraries, counters_of_nvtx_are_told_in_a_build_for_cuda) {
  auto facts = good_libraries();
  EXPECT_EQ(the_line(library_lines(facts), "nvtx-counters").value, "built in");
  facts.nvtx_counters = false;
  auto const line = the_line(library_lines(facts), "nvtx-counters");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("-DMSSTREAM_NVTX"));
  EXPECT_EQ(read_libraries({}, 0, 0, "/no/such/root").nvtx_counters,
            msstream::detail::has_nvtx_counters());
}

TEST(DoctorLibraries, cupti_that_is_held_or_missing_is_noted) {
  auto facts = good_libraries();
  facts.cupti_subscribe = kCuptiManySubscribers;
  EXPECT_EQ(the_line(library_lines(facts), "cupti").value, "held by another profiler");
  facts.cupti_subscribe = 38;
  EXPECT_THAT(the_line(library_lines(facts), "cupti").value, HasSubstr("38"));
  facts.has_cupti = false;
  facts.cupti_problem = "libcupti.so.13: cannot open shared object file";
  EXPECT_EQ(level_of(library_lines(facts), "cupti"), Level::note);
  EXPECT_THAT(the_line(library_lines(facts), "cupti").value, HasSubstr(facts.cupti_problem));
}

TEST(DoctorLibraries, a_chosen_cupti_is_the_only_one) {
  auto const facts =
      read_libraries({{"MSSTREAM_OVERLAP_CUPTI", "/no/such/libcupti.so"}}, 0, 0, "/no/such/root");
  EXPECT_FALSE(facts.has_cupti);
  EXPECT_THAT(facts.cupti_problem, HasSubstr("/no/such/libcupti.so"));
}

TEST(DoctorLibraries, cupti_is_not_newer_than_the_driver) {
  using overlap::record::cupti_files;
  EXPECT_THAT(cupti_files(12), Not(Contains("libcupti.so.13")));
  EXPECT_EQ(cupti_files(12).front(), "libcupti.so.12");
  EXPECT_EQ(cupti_files(0).front(), "libcupti.so.13");
  EXPECT_THAT(cupti_files(13), Contains("libcupti.so.12"));
}

TEST(DoctorLibraries, the_message_of_a_library_that_is_there_is_kept) {
  msstream::testing::TemporaryFolder const folder;
  using Names = std::vector<std::string>;
  auto const broken = folder.write("libbroken.so", "no library").string();
  SharedLibrary const library(Names{"libnone.so.1", broken, "libnone.so.2"});
  EXPECT_FALSE(library);
  EXPECT_THAT(library.problem(), HasSubstr(broken));
  EXPECT_THAT(SharedLibrary(Names{"libnone.so.1", "libnone.so.2"}).problem(),
              HasSubstr("libnone.so.1"));
}

TEST(DoctorLibraries, counters_are_for_administrators_unless_opened) {
  auto facts = good_libraries();
  facts.counters_restricted = true;
  EXPECT_EQ(level_of(library_lines(facts), "counters"), Level::note);
  facts.may_administrate = true;
  EXPECT_EQ(level_of(library_lines(facts), "counters"), Level::ok);
}

TEST(DoctorLibraries, built_in_libraries_that_cannot_be_loaded_are_bad) {
  auto facts = good_libraries();
  facts.nccl_version.reset();
  facts.mpi_version.clear();
  EXPECT_EQ(level_of(library_lines(facts), "nccl"), Level::bad);
  EXPECT_EQ(level_of(library_lines(facts), "mpi"), Level::bad);
  facts.nccl_built_in = facts.mpi_built_in = false;
  EXPECT_EQ(level_of(library_lines(facts), "nccl"), Level::note);
  EXPECT_EQ(level_of(library_lines(facts), "mpi"), Level::ok);
}

TEST(DoctorLibraries, loading_of_kernels_has_three_values) {
  auto facts = good_libraries();
  EXPECT_THAT(the_line(library_lines(facts), "module-loading").advice, HasSubstr("EAGER"));
  facts.module_loading = "EAGER";
  EXPECT_EQ(the_line(library_lines(facts), "module-loading").advice, "");
  facts.module_loading = "EARGER";
  EXPECT_EQ(level_of(library_lines(facts), "module-loading"), Level::note);
}

}  // namespace
}  // namespace msstream::doctor
