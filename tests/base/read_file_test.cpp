// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.hpp"

#include "base/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::EndsWith;

std::string refusal_of_read(std::filesystem::path const& path, std::size_t most_bytes = 100) {
  try {
    (void)msstream::detail::read_file(path, most_bytes);
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "none";
}

TEST(ReadFile, reads_all_up_to_the_bound) {
  TemporaryFolder const folder;
  for (std::size_t const count : {0U, 1U, 99U, 100U}) {
    std::string const content(count, 'x');
    EXPECT_EQ(msstream::detail::read_file(folder.write("file", content), 100), content);
  }
  std::string const longer(1'000'000, 'y');
  EXPECT_EQ(msstream::detail::read_file(folder.write("file", longer), 1'000'000), longer);
  EXPECT_EQ(msstream::detail::read_file("/dev/null", 100), "");
}

TEST(ReadFile, refuses_what_is_longer_or_has_no_end) {
  TemporaryFolder const folder;
  EXPECT_THAT(refusal_of_read(folder.write("file", std::string(101, 'x'))),
              EndsWith("file: has 101 bytes; expected at most 100"));
  EXPECT_EQ(refusal_of_read("/dev/zero", 10'000),
            "/dev/zero: goes on after 10000 bytes; expected no more");
}

TEST(ReadFile, says_what_cannot_be_read) {
  TemporaryFolder const folder;
  EXPECT_THAT(refusal_of_read(folder / "absent"),
              EndsWith("absent: cannot open: No such file or directory"));
  EXPECT_THAT(refusal_of_read(folder.path()), EndsWith(": expected a file, found a folder"));
}

}  // namespace
}  // namespace msstream::testing
