// SPDX-License-Identifier: Apache-2.0
// Tests that a saved position continues only the rows that it was saved of.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SourceOfRowsTest : public ::testing::Test {
 protected:
  [[nodiscard]] TextOptions options(std::int64_t buckets = 100) const {
    return {.columns = {{.name = "id", .type = ColumnType::hashed, .buckets = buckets}}};
  }
  /// Returns the text of the position behind the first batch.
  static std::string saved(Reader& reader) {
    Loader loader(reader, {.batch_size = 1});
    EXPECT_TRUE(loader.next());
    return to_string(loader.position());
  }
  /// Starts a loader at a position, and returns the message of what it throws; empty if it starts.
  static std::string refusal(Reader& reader, std::string const& position) {
    try {
      Loader(reader, {.batch_size = 1, .start = LoaderPosition::parse(position)}).stop();
      return {};
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
  }

  testing::TemporaryFolder folder;
  std::filesystem::path first = folder.write("one.csv", "id\nq\nr\n");
  std::filesystem::path second = folder.write("two.csv", "id\ns\nt\n");
};

TEST_F(SourceOfRowsTest, a_position_continues_the_same_files_in_the_same_order) {
  CsvReader reader({first, second}, options());
  auto const position = saved(reader);
  EXPECT_THAT(position, HasSubstr(" files=2 bytes=14 source="));
  EXPECT_EQ(refusal(reader, position), "");
  EXPECT_EQ(LoaderPosition::parse(position).source, reader.source());

  CsvReader swapped({second, first}, options());
  EXPECT_THAT(refusal(swapped, position),
              AllOf(HasSubstr("of 2 files of 14 bytes in all, the reader has 2 of 14 bytes, of "
                              "other names, in another order, or read with other options"),
                    HasSubstr("expected the same files in the same order")));
  CsvReader fewer(first, options());
  EXPECT_THAT(refusal(fewer, position), HasSubstr("the reader has 1 of 7 bytes; expected"));
  CsvReader other_buckets({first, second}, options(101));
  EXPECT_THAT(refusal(other_buckets, position), HasSubstr("read with other options"));
  CsvReader spaced({first, second}, [&] {
    auto with = options();
    with.missing = {"q"};
    return with;
  }());
  EXPECT_THAT(refusal(spaced, position), HasSubstr("read with other options"));

  std::filesystem::create_directory(folder / "moved");
  std::filesystem::copy(first, folder / "moved");
  std::filesystem::copy(second, folder / "moved");
  CsvReader moved({folder / "moved" / "one.csv", folder / "moved" / "two.csv"}, options());
  EXPECT_EQ(refusal(moved, position), "");
  std::ofstream(folder / "moved" / "two.csv", std::ios::app) << "u\n";
  EXPECT_THAT(refusal(moved, position), HasSubstr("the reader has 2 of 16 bytes; expected"));

  // A reader that does not say what its source is fits any position.
  class Forwarding final : public Reader {
   public:
    explicit Forwarding(Reader& rows) : rows_(rows) {}
    [[nodiscard]] Schema const& schema() const override { return rows_.schema(); }
    bool next(Chunk& chunk) override { return rows_.next(chunk); }
    [[nodiscard]] Position position() const override { return rows_.position(); }
    void seek(Position const& place) override { rows_.seek(place); }

   private:
    Reader& rows_;
  };
  Forwarding forwarding(swapped);
  EXPECT_EQ(refusal(forwarding, position), "");
  // Text of former versions has no source.
  auto const begin = position.find(" files=");
  auto const former = position.substr(0, begin) + position.substr(position.find(" part="));
  EXPECT_EQ(refusal(swapped, former), "");
}

TEST_F(SourceOfRowsTest, other_readers_have_one_too) {
  CsvReader rows({first, second}, options());
  PartReader part(rows, {.end = 0.9});
  EXPECT_EQ(part.source(), rows.source());

  LibSvmReader const one(folder.write("one", "1 1:2\n"));
  LibSvmReader const from_zero(folder / "one", {.first_index = 0});
  EXPECT_EQ(one.source().files, 1);
  EXPECT_NE(one.source(), from_zero.source());

  auto const bytes = folder.write("numbers", std::string(16, '\0'));
  using Stored = BinaryColumn::Stored;
  BinaryReader const ints(
      std::vector<BinaryColumn>{{.name = "x", .path = bytes, .stored = Stored::int32}});
  BinaryReader const floats(std::vector<BinaryColumn>{{.name = "x", .path = bytes}});
  EXPECT_EQ(ints.source().bytes, 16);
  EXPECT_NE(ints.source(), floats.source());
}

}  // namespace
}  // namespace msstream::data
