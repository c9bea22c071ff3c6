// SPDX-License-Identifier: Apache-2.0
#include "cli/page.hpp"

#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace msstream::cli {
namespace {

namespace fs = std::filesystem;

/// Writes a page, and returns its path.
std::string write_page(fs::path const& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "doctor.md") << "# Doctor\n";
  return (folder / "doctor.md").string();
}

TEST(Page, that_is_not_installed_has_its_name_in_the_sources) {
  testing::TemporaryFolder const prefix;
  fs::create_directories(prefix.path() / "share/doc/msstream/docs");
  EXPECT_EQ(page_path("docs/doctor.md", prefix.path() / "bin"), "docs/doctor.md");
  EXPECT_EQ(page_path("docs/doctor.md", {}), "docs/doctor.md");
}

TEST(Page, of_an_installation_is_found_from_the_folder_of_its_programs) {
  testing::TemporaryFolder const prefix;
  auto const bin = prefix.path() / "bin";
  for (auto const* package : {"libmsstream-cuda-dev", "libmsstream-dev", "msstream"}) {
    auto const page = write_page(prefix.path() / "share/doc" / package / "docs");
    EXPECT_EQ(page_path("docs/doctor.md", bin), page);
  }
  EXPECT_EQ(page_path("docs/overlap.md", bin), "docs/overlap.md");
}

}  // namespace
}  // namespace msstream::cli
