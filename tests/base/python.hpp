// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace msstream::testing {

/// A fixture of tests that run Python with packages that the project does not need otherwise. They
/// are skipped unless the environment variable MSSTREAM_TEST_PYTHON names a Python that has them;
/// `scripts/nightly.sh python` makes one.
class PythonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char const* const named = std::getenv("MSSTREAM_TEST_PYTHON");
    if (named == nullptr) {
      GTEST_SKIP() << "MSSTREAM_TEST_PYTHON names no Python: see scripts/nightly.sh python";
    }
    python_ = named;
  }

  /// Runs a script with a path as its argument, and returns what it prints. Fails the test, with
  /// its messages, if it does not succeed.
  [[nodiscard]] std::string run(std::string_view script, std::filesystem::path const& path) const {
    auto const file = scratch_.write("script.py", script);
    auto const out = scratch_ / "out";
    auto const errors = scratch_ / "errors";
    int const status = std::system((python_ + " '" + file.string() + "' '" + path.string() +
                                    "' >'" + out.string() + "' 2>'" + errors.string() + "'")
                                       .c_str());
    EXPECT_EQ(status, 0) << read_all(errors);
    return read_all(out);
  }

  TemporaryFolder folder_;

 private:
  std::string python_;
  TemporaryFolder scratch_;
};

}  // namespace msstream::testing
