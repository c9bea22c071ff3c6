// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/run_program.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/runtime/default_runtime.hpp>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace msstream::testing {

/// A fixture for tests that run a program, with the name of a runtime and a folder for files.
class ProgramTest : public ::testing::TestWithParam<std::string> {
 protected:
  explicit ProgramTest(std::string program) : program_(std::move(program)) {}

  void SetUp() override {
#if MSSTREAM_CUDA
    if (runtime() == "cuda" && Cuda::device_count() == 0) {
      GTEST_SKIP() << "no GPU on this machine";
    }
#endif
  }
  [[nodiscard]] static std::string runtime() {
    auto const* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    return info->value_param() != nullptr ? GetParam() : "host";
  }
  /// Returns whether the test's runtime has as many devices as ranks.
  [[nodiscard]] static bool has_devices_for(int ranks) {
#if MSSTREAM_CUDA
    return runtime() != "cuda" || Cuda::device_count() >= ranks;
#else
    return ranks > 0;
#endif
  }
  [[nodiscard]] std::string path(std::string_view name) const {
    return (folder / name).string();
  }

  [[nodiscard]] Ended run(Words const& arguments, RunOptions const& options = {}) const {
    return run_program(program_, arguments, options);
  }
  /// Runs the program, expects success, and returns its JSON report.
  [[nodiscard]] nlohmann::json report_of(Words const& arguments, RunOptions const& options = {}) {
    auto const ended = run(arguments + Words{"--report", path("report.json")}, options);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.signal, 0);
    return ended.status == 0 ? nlohmann::json::parse(read_all(path("report.json")))
                             : nlohmann::json();
  }

  TemporaryFolder folder;

 private:
  std::string program_;
};

/// The names of the runtimes in this build, as parameters of tests that train.
#if MSSTREAM_CUDA
inline auto const kRuntimes = ::testing::Values("host", "cuda");
#else
inline auto const kRuntimes = ::testing::Values("host");
#endif
inline std::string name_of_runtime(::testing::TestParamInfo<std::string> const& info) {
  return info.param;
}

}  // namespace msstream::testing
