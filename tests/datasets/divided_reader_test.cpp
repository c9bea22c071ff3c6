// SPDX-License-Identifier: Apache-2.0
#include "datasets/divided_reader.hpp"

#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/loaded.hpp"
#include "datasets/reader_rows.hpp"
#include "datasets/stored_rows.hpp"

#include <msstream/data/loader.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>

namespace msstream::datasets {
namespace {

using data::CountingReader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

/// Returns the ids of the rows, and checks that the other columns belong to them.
std::vector<std::int64_t> ids_of(StoredRows const& rows) {
  std::vector<std::int64_t> ids;
  for (auto const& chunk : rows.chunks()) {
    chunk.check();
    auto const& offsets = chunk.offsets("bag");
    for (std::size_t row = 0; row < static_cast<std::size_t>(chunk.rows()); ++row) {
      auto const id = chunk.ints("id")[row];
      ids.push_back(id);
      EXPECT_EQ(chunk.floats("pair")[2 * row], static_cast<float>(id));
      EXPECT_EQ(chunk.floats("pair")[2 * row + 1], static_cast<float>(id) + 0.5F);
      EXPECT_EQ(offsets[row + 1] - offsets[row], id % 4);
      for (auto i = offsets[row]; i < offsets[row + 1]; ++i) {
        EXPECT_EQ(chunk.ints("bag")[static_cast<std::size_t>(i)], 10 * id);
      }
    }
  }
  return ids;
}

std::vector<std::int64_t> ids_of_part(std::int64_t rows,
                                      std::int64_t chunk_rows,
                                      std::int64_t holdout,
                                      Kept kept) {
  DividedReader reader(std::make_unique<CountingReader>(rows, chunk_rows), holdout, kept);
  return ids_of(load_rows(reader, 3));
}

TEST(DividedReader, gives_the_rows_that_divide_gives_whatever_the_chunks) {
  for (std::int64_t const chunk_rows : {1, 3, 7, 100}) {
    for (std::int64_t const holdout : {2, 5, 7}) {
      CountingReader all(100, chunk_rows);
      auto const divided = divide(load_rows(all), holdout);
      EXPECT_EQ(ids_of_part(100, chunk_rows, holdout, Kept::training), ids_of(divided.training));
      EXPECT_EQ(ids_of_part(100, chunk_rows, holdout, Kept::held_out), ids_of(divided.held_out));
    }
  }
  EXPECT_THAT(ids_of_part(11, 4, 5, Kept::held_out), ElementsAre(4, 9));
  EXPECT_EQ(ids_of_part(11, 4, 0, Kept::training).size(), 11U);
}

TEST(DividedReader, goes_on_at_a_position_with_the_same_rows) {
  DividedReader reader(std::make_unique<CountingReader>(60), 4, Kept::held_out);
  std::vector<data::Reader::Position> places;
  std::vector<StoredRows> read;
  while (true) {
    places.push_back(reader.position());
    StoredRows chunks(reader.schema());
    data::Chunk chunk(reader.schema());
    if (!reader.next(chunk)) {
      break;
    }
    chunks.add(std::move(chunk));
    read.push_back(std::move(chunks));
  }
  ASSERT_GT(read.size(), 5U);
  for (std::size_t i = read.size(); i-- > 0;) {
    reader.seek(places[i]);
    data::Chunk chunk(reader.schema());
    ASSERT_TRUE(reader.next(chunk));
    StoredRows chunks(reader.schema());
    chunks.add(std::move(chunk));
    EXPECT_EQ(ids_of(chunks), ids_of(read[i])) << i;
    EXPECT_EQ(reader.position(), places[i + 1]);
  }
}

TEST(DividedReader, parts_of_a_position_have_names_that_differ) {
  auto const part = [](std::int64_t holdout, Kept kept) {
    return DividedReader(std::make_unique<CountingReader>(9), holdout, kept).part();
  };
  EXPECT_EQ(part(5, Kept::training), "all but every 5-th row of all");
  EXPECT_EQ(part(5, Kept::held_out), "only every 5-th row of all");
  EXPECT_EQ(part(0, Kept::training), "all");
}

TEST(DividedReader, shows_all_rows_with_their_file_and_each_place) {
  TemporaryFolder const folder;
  auto const line = criteo_row('\t') + "\n";
  auto const first = folder.write("first", line + line + line);
  auto const second = folder.write("second", line + line);
  std::atomic<std::int64_t> of_first = 0;
  std::atomic<std::int64_t> of_second = 0;
  std::vector<std::int64_t> files;
  DividedReader reader(open_data({first, second}, {}),
                       2,
                       Kept::held_out,
                       {.rows =
                            [&](data::Chunk const& chunk, std::string const& file) {
                              (file == first.string() ? of_first : of_second) += chunk.rows();
                            },
                        .place = [&](auto const& place) { files.push_back(place.file); }});
  EXPECT_EQ(load_rows(reader, 2).rows(), 2);
  EXPECT_EQ(of_first, 3);
  EXPECT_EQ(of_second, 2);
  EXPECT_THAT(files, ElementsAre(0, 1));
}

TEST(DividedReader, refuses_what_leaves_no_rows) {
  auto const make = [](std::int64_t holdout, Kept kept) {
    DividedReader(std::make_unique<CountingReader>(9), holdout, kept);
  };
  EXPECT_THROW(make(1, Kept::training), std::invalid_argument);
  EXPECT_THROW(make(-1, Kept::training), std::invalid_argument);
  EXPECT_THROW(make(0, Kept::held_out), std::invalid_argument);
}

TEST(Readers, several_files_are_read_in_their_order) {
  TemporaryFolder const folder;
  std::vector<std::filesystem::path> paths;
  for (char const* const label : {"1", "0", "1"}) {
    auto const name = fmt::format("part {}", paths.size());
    paths.push_back(folder.write(name, criteo_row('\t', label) + "\n"));
  }
  paths.insert(paths.begin() + 2, folder.write("nothing", ""));
  auto const reader = open_data(paths, {});
  ReadRows const rows(load_rows(*reader));
  ASSERT_EQ(rows.rows(), 3);
  EXPECT_EQ(rows.labels(0)[0], 1.0F);
  EXPECT_EQ(rows.labels(1)[0], 0.0F);
  EXPECT_EQ(rows.labels(2)[0], 1.0F);
  EXPECT_THROW((void)open_data(std::vector<std::filesystem::path>{}, {}), std::invalid_argument);

  auto const other = folder.write("other", criteo_row('\t') + "\n" + criteo_row('\t', "2") + "\n");
  auto const mixed = open_data({paths[0], other}, {});
  EXPECT_THAT(message_of<data::DataError>([&] { (void)load_rows(*mixed); }),
              HasSubstr(other.string() + ":2: column 1 (Label)"));
}

TEST(Readers, files_of_an_option_stand_between_commas) {
  TemporaryFolder const folder;
  EXPECT_TRUE(data_paths("").empty());
  EXPECT_THAT(data_paths("day_0"), ElementsAre("day_0"));
  EXPECT_THAT(data_paths("a/day_0,b/day_1,c"), ElementsAre("a/day_0", "b/day_1", "c"));
  auto const odd = folder.write("1,2.tsv", "").string();
  EXPECT_THAT(data_paths(odd), ElementsAre(odd));
}

}  // namespace
}  // namespace msstream::datasets
