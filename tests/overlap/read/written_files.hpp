// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/gzipped.hpp"
#include "base/temporary_folder.hpp"
#include "overlap/read/read.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::testing {

using msstream::testing::gzipped;

/// Tests that write small files and read them as recordings.
class ReadTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path(std::string_view name) const { return folder_ / name; }
  std::filesystem::path write(std::string_view bytes, std::string_view name = "trace") const {
    return folder_.write(name, bytes);
  }
  [[nodiscard]] Recording read_one(std::string_view bytes) const {
    auto recordings = read(write(bytes));
    EXPECT_EQ(recordings.size(), 1U);
    return std::move(recordings.at(0));
  }
  /// Returns the message of the error that reading the file throws.
  [[nodiscard]] static std::string refusal(std::filesystem::path const& file) {
    try {
      (void)read(file);
    } catch (std::runtime_error const& error) {
      EXPECT_THAT(error.what(), ::testing::StartsWith(file.string() + ": "));
      return error.what();
    }
    ADD_FAILURE() << "nothing thrown";
    return {};
  }

 private:
  msstream::testing::TemporaryFolder folder_;
};

/// Returns a trace with these events.
inline std::string trace_of(std::string_view events, std::string_view head = "") {
  return "{" + std::string(head) + "\"traceEvents\": [" + std::string(events) + "]}";
}

}  // namespace msstream::overlap::testing
