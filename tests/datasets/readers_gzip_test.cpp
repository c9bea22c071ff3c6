// SPDX-License-Identifier: Apache-2.0
#include "datasets/reader_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace msstream::datasets {

namespace {

using testing::gzipped;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(ReadersOfGzip, reads_gzip_of_several_members_whatever_the_name) {
  TemporaryFolder const folder;
  auto const bytes = gzipped(census_row() + "\n") + gzipped(census_row("50000+.") + "\n");
  auto const data = load(folder.write("plain.csv", bytes));
  ASSERT_EQ(data.rows(), 2);
  EXPECT_EQ(data.labels(1)[0], 1.0F);
}

TEST(ReadersOfGzip, an_empty_gzip_member_between_two_is_no_end) {
  TemporaryFolder const folder;
  auto const row = gzipped(census_row() + "\n");
  EXPECT_EQ(load(folder.write("x", row + gzipped("") + row)).rows(), 2);
}

TEST(ReadersOfGzip, refuses_a_gzip_stream_that_is_cut_anywhere) {
  TemporaryFolder const folder;
  std::string rows;
  for (int i = 0; i < 50; ++i) {
    rows += census_row() + "\n";
  }
  auto const whole = gzipped(rows);
  for (std::size_t const kept :
       {std::size_t{2}, std::size_t{10}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_THAT(read_failure(folder.write("x", whole.substr(0, kept))),
                HasSubstr("is cut off after"))
        << kept;
  }
}

TEST(ReadersOfGzip, zeros_behind_a_gzip_stream_are_padding) {
  TemporaryFolder const folder;
  auto const row = gzipped(census_row() + "\n");
  for (std::size_t const zeros : {1UL, 511UL, 1'000'000UL}) {
    EXPECT_EQ(load(folder.write("x", row + row + std::string(zeros, '\0'))).rows(), 2) << zeros;
  }
  EXPECT_THAT(read_failure(folder.write("x", row + std::string(9, '\0') + "x")),
              HasSubstr("other bytes follow"));
}

TEST(ReadersOfGzip, refuses_a_damaged_gzip_stream_and_bytes_behind_it) {
  TemporaryFolder const folder;
  auto whole = gzipped(census_row());
  EXPECT_THAT(read_failure(folder.write("x", whole + "rest")), HasSubstr("other bytes follow"));
  whole[whole.size() - 6] ^= 1;  // a byte of the checksum
  EXPECT_THAT(read_failure(folder.write("x", whole)), HasSubstr("the gzip stream is damaged"));
}

}  // namespace
}  // namespace msstream::datasets
