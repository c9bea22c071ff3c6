// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace msstream::data {
namespace {

TEST(GzipText, is_read_and_continued_like_plain_text) {
  testing::TemporaryFolder const folder;
  std::string text = "id\n";
  for (int row = 0; row < 5'000; ++row) {
    text += fmt::format("{}\n", row);
  }
  auto const path = folder.write("rows", text);
  if (std::system(fmt::format("gzip -k '{}'", path.string()).c_str()) != 0) {
    GTEST_SKIP() << "there is no gzip on this machine";
  }
  TextOptions const options{.columns = {{"id", ColumnType::int64}}, .chunk_bytes = 1'000};
  CsvReader plain(path, options);
  CsvReader packed(folder / "rows.gz", options);
  Chunk expected(plain.schema());
  Chunk found(plain.schema());
  std::int64_t last = 0;
  while (plain.next(expected)) {
    ASSERT_TRUE(packed.next(found));
    EXPECT_EQ(found.ints("id"), expected.ints("id"));
    last = expected.ints("id").back();
    expected.clear();
    found.clear();
    CsvReader continued(folder / "rows.gz", options);
    continued.seek(packed.position());
    EXPECT_EQ(continued.position(), plain.position());
    Chunk next(plain.schema());
    if (continued.next(next)) {
      EXPECT_EQ(next.ints("id").front(), last + 1);
    }
  }
  EXPECT_FALSE(packed.next(found));

  std::filesystem::resize_file(folder / "rows.gz",
                               std::filesystem::file_size(folder / "rows.gz") / 2);
  CsvReader damaged(folder / "rows.gz", options);
  EXPECT_THAT(testing::message_of<DataError>([&] {
                while (damaged.next(found)) {
                  found.clear();
                }
              }),
              ::testing::HasSubstr("rows.gz: the gzip stream is cut off"));
}

}  // namespace
}  // namespace msstream::data
