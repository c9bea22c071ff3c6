// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_folder.hpp"

#include <msstream/base/detail/file_identity.hpp>

#include <gtest/gtest.h>

#include <filesystem>

namespace msstream::testing {
namespace {

namespace fs = std::filesystem;

/// Expects that all paths in `same` name one file, whether that file exists or not.
void expect_one_file(TemporaryFolder const& folder, std::vector<fs::path> const& same) {
  for (auto const& path : same) {
    ASSERT_TRUE(msstream::detail::identity_of(path)) << path;
    EXPECT_EQ(msstream::detail::identity_of(path), msstream::detail::identity_of(same.front()))
        << path;
    EXPECT_NE(msstream::detail::identity_of(path),
              msstream::detail::identity_of(folder / "another"))
        << path;
  }
}

TEST(FileIdentity, is_the_same_for_every_spelling) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "in");
  fs::create_directory_symlink("in", folder / "to_in");
  fs::create_symlink("in/file", folder / "link");
  fs::create_symlink("link", folder / "link_to_link");
  std::vector<fs::path> same{folder / "in/file",
                             folder / "in/./file",
                             folder / "in//file",
                             folder / "in/../in/file",
                             folder / "to_in/file",
                             folder / "link",
                             folder / "link_to_link",
                             fs::relative(folder / "in/file")};
  expect_one_file(folder, same);  // in/file does not exist yet
  folder.write("in/file", "x");
  fs::create_hard_link(folder / "in/file", folder / "hard");
  same.push_back(folder / "hard");
  expect_one_file(folder, same);
}

TEST(FileIdentity, is_none_where_there_is_no_folder) {
  TemporaryFolder const folder;
  EXPECT_FALSE(msstream::detail::identity_of(folder / "absent/file"));
  fs::create_symlink("round", folder / "round");
  EXPECT_FALSE(msstream::detail::identity_of(folder / "round"));
  EXPECT_FALSE(msstream::detail::identity_of(folder.write("file", "") / "below"));
}

TEST(FileIdentity, of_a_name_alone_is_in_the_current_folder) {
  EXPECT_EQ(msstream::detail::identity_of("msstream_no_such_file"),
            msstream::detail::identity_of("./msstream_no_such_file"));
  EXPECT_NE(msstream::detail::identity_of("msstream_no_such_file"),
            msstream::detail::identity_of("msstream_no_such_file_2"));
}

}  // namespace
}  // namespace msstream::testing
