// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/gzipped.hpp"
#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace msstream::testing {

/// Returns the path of real test data: in the folder that MSSTREAM_TEST_DATA names, or else beside
/// the checkout.
inline std::filesystem::path test_data(std::string_view name) {
  char const* folder = std::getenv("MSSTREAM_TEST_DATA");
  return std::filesystem::path(folder != nullptr ? folder : MSSTREAM_DATA_FOLDER) / name;
}

}  // namespace msstream::testing
