// SPDX-License-Identifier: Apache-2.0
#include "datasets/reader_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace msstream::datasets {

namespace {

using data::string_key;
using ::testing::EndsWith;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

/// Returns the line with every value in quotes.
std::string quoted(std::string const& row, char separator = ',') {
  std::string out = "\"";
  for (char const character : row) {
    out += character == separator ? std::string("\"") + separator + '"' : std::string(1, character);
  }
  return out + '"';
}

void expect_same_data(ReadRows const& found, ReadRows const& expected) {
  ASSERT_EQ(found.rows(), expected.rows());
  for (std::int64_t row = 0; row < found.rows(); ++row) {
    EXPECT_EQ(found.keys(row), expected.keys(row)) << row;
    EXPECT_EQ(found.continuous(row), expected.continuous(row)) << row;
    EXPECT_EQ(found.labels(row), expected.labels(row)) << row;
  }
}

TEST(ReadersOfQuotes, quotes_are_no_part_of_a_value) {
  TemporaryFolder const folder;
  auto const row = census_row("50000+.") + "\n" + census_row();
  auto const census = load(folder.write("census", row));
  auto const criteo = load(folder.write("criteo", criteo_header() + "\n77," + criteo_row(',')));
  for (std::size_t const chunk_bytes : {1UL, 100UL, 100'000UL}) {
    ReaderOptions const options{.chunk_bytes = chunk_bytes};
    expect_same_data(
        load(folder.write("x",
                          quoted(census_row("50000+.")) + "\r\n\r\n" + quoted(census_row()) + "\n"),
             options),
        census);
    auto const one = with_column(census_row(), 1, " \"c1\" ", ',');
    expect_same_data(load(folder.write("x", census_row("50000+.") + "\n" + one), options), census);
    expect_same_data(
        load(folder.write("x", quoted(criteo_header()) + "\n" + quoted("77," + criteo_row(','))),
             options),
        criteo);
  }
}

TEST(ReadersOfQuotes, quoted_values_hold_separators_quotes_and_line_ends) {
  TemporaryFolder const folder;
  auto const of = [](std::string_view value) {
    return with_column("77," + criteo_row(','), 15, value, ',') + "\n";
  };
  auto const rows = of("\"a,b\"") + of("\"say \"\"hi\"\"\"") + of("\"two\r\nlines\n\"") +
                    of("\"\"") + of("plain \"quote\"") + of("\" b \"") + of("b");
  for (std::size_t const chunk_bytes : {1UL, 300UL, 100'000UL}) {
    auto const data =
        load(folder.write("x", criteo_header() + "\n" + rows), {.chunk_bytes = chunk_bytes});
    ASSERT_EQ(data.rows(), 7) << chunk_bytes;
    EXPECT_EQ(data.keys(0)[0], string_key("a,b"));
    EXPECT_EQ(data.keys(1)[0], string_key("say \"hi\""));
    EXPECT_EQ(data.keys(2)[0], string_key("two\r\nlines\n"));
    EXPECT_EQ(data.keys(3)[0], string_key(""));
    EXPECT_EQ(data.keys(4)[0], string_key("plain \"quote\"")) << "it does not begin with a quote";
    EXPECT_EQ(data.keys(5)[0], string_key(" b ")) << "spaces are part of a value";
    EXPECT_EQ(data.keys(6)[25], string_key("w26"));
  }
}

TEST(ReadersOfQuotes, a_record_of_several_lines_tells_the_format_and_is_counted) {
  TemporaryFolder const folder;
  auto const row = with_column(census_row(), 1, "\"two\nlines\"", ',') + "\n";
  EXPECT_EQ(load(folder.write("x", row)).keys(0)[0], string_key("two\nlines"));
  for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
    EXPECT_THAT(read_failure(folder.write("x", row + row + "bad\n"), {.chunk_bytes = chunk_bytes}),
                EndsWith("x:5: expected 42 columns, found 1"));
    auto const late = with_column(row, 41, "none", ',');
    EXPECT_THAT(read_failure(folder.write("x", row + late + "\n"), {.chunk_bytes = chunk_bytes}),
                HasSubstr("x:4: column 42 (income): expected"))
        << "the line of the value";
  }
}

TEST(ReadersOfQuotes, bad_quotes_are_named_by_line) {
  TemporaryFolder const folder;
  auto const good = census_row() + "\n";
  for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
    ReaderOptions const options{.chunk_bytes = chunk_bytes};
    auto const open = with_column(census_row(), 2, "\"open", ',') + "\n";
    EXPECT_THAT(read_failure(folder.write("x", good + open + good), options),
                EndsWith("x:2: a quoted value of this row is not closed"));
    auto const behind = with_column(census_row(), 2, "\"a\"b", ',') + "\n";
    EXPECT_THAT(read_failure(folder.write("x", good + behind + good), options),
                EndsWith("x:2: column 3: expected ',' or the end of the line behind the quoted "
                         "value 'a'"));
    EXPECT_THAT(read_failure(folder.write("x", good + quoted(census_row()) + ",\"x\"\n"), options),
                EndsWith("x:2: expected 42 columns, found 43"));
  }
}

TEST(ReadersOfQuotes, between_tabs_quotes_are_text) {
  TemporaryFolder const folder;
  auto const row = with_column(criteo_row('\t'), 14, "\"w1", '\t') + "\n";
  auto const data = load(folder.write("x", row + row));
  ASSERT_EQ(data.rows(), 2);
  EXPECT_EQ(data.keys(1)[0], string_key("\"w1"));
}

TEST(ReadersOfQuotes, a_byte_order_mark_is_left_out) {
  TemporaryFolder const folder;
  std::string const mark = "\xEF\xBB\xBF";
  for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
    ReaderOptions const options{.chunk_bytes = chunk_bytes};
    EXPECT_EQ(load(folder.write("x", mark + census_row()), options).continuous(0)[0], 0.0F);
    EXPECT_EQ(load(folder.write("x", mark + quoted(census_row())), options).rows(), 1);
    EXPECT_EQ(
        load(folder.write("x", gzipped(mark + criteo_header() + "\n1," + criteo_row(','))), options)
            .rows(),
        1);
    EXPECT_THAT(read_failure(folder.write("x", mark), options), EndsWith("found an empty file"));
    EXPECT_THAT(read_failure(folder.write("x", census_row() + "\n" + mark + census_row()), options),
                HasSubstr("x:2: column 1 (age)"));
  }
}

TEST(ReadersOfQuotes, a_line_that_is_too_long_or_has_no_end_is_refused) {
  TemporaryFolder const folder;
  EXPECT_EQ(read_failure("/dev/zero"), "/dev/zero:1: expected text, found a NUL byte");
  std::string const endless(std::size_t{17} << 20U, 'x');
  EXPECT_THAT(read_failure(folder.write("x", census_row() + "\n" + endless)),
              EndsWith("x:2: the line is longer than 16777216 bytes"));
  EXPECT_THAT(read_failure(folder.write("x", gzipped(census_row() + "\n\"" + endless))),
              EndsWith("x:2: the line is longer than 16777216 bytes; is a quoted value not "
                       "closed?"));
}

}  // namespace
}  // namespace msstream::datasets
