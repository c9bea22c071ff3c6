// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

/// Reads a reader to its end into one chunk, whatever its chunks are.
Chunk rest_of(Reader& reader) {
  Chunk all(reader.schema());
  Chunk chunk(reader.schema());
  while (reader.next(chunk)) {
    chunk.check();
    for (std::size_t i = 0; i < all.schema().columns().size(); ++i) {
      auto const& column = all.schema().columns()[i];
      if (column.is_jagged()) {
        auto const before = all.offsets(i).back();
        for (std::size_t row = 1; row < chunk.offsets(i).size(); ++row) {
          all.offsets(i).push_back(before + chunk.offsets(i)[row]);
        }
      }
      auto const append = [](auto& to, auto const& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      column.is_float() ? append(all.floats(i), chunk.floats(i))
                        : append(all.ints(i), chunk.ints(i));
    }
    chunk.clear();
  }
  return all;
}

TextOptions three_columns() {
  return {.columns = {{"x"}, {"id", ColumnType::int64}, {"word", ColumnType::hashed}}};
}

class TextReaderTest : public ::testing::Test {
 protected:
  Chunk read(std::string_view bytes, TextOptions const& options) {
    CsvReader reader(folder_.write("rows.csv", bytes), options);
    return rest_of(reader);
  }
  std::string failure(std::string_view bytes, TextOptions options) {
    std::string first;
    for (std::size_t const chunk : {1, 7, 1'000'000}) {
      options.chunk_bytes = chunk;
      auto const message = message_of<DataError>([&] { read(bytes, options); });
      first = first.empty() ? message : first;
      EXPECT_EQ(message, first) << "in chunks of " << chunk;
    }
    auto const folder = folder_.path().string() + "/";
    return first.starts_with(folder) ? first.substr(folder.size()) : first;
  }

  TemporaryFolder folder_;
};

TEST_F(TextReaderTest, reads_the_fields_that_are_named_in_the_header) {
  std::string_view const bytes =
      "id,skipped,word,x\n7,?,a,1.5\n-12345678901,,\"b,\"\"c\",-2\n0,,,.25e1\n";
  for (std::size_t const chunk : {1, 30, 1'000'000}) {
    auto options = three_columns();
    options.chunk_bytes = chunk;
    auto const rows = read(bytes, options);
    EXPECT_THAT(rows.floats("x"), ElementsAre(1.5F, -2.0F, 2.5F));
    EXPECT_THAT(rows.ints("id"), ElementsAre(7, -12345678901, 0));
    EXPECT_THAT(rows.ints("word"),
                ElementsAre(string_key("a"), string_key("b,\"c"), string_key("")));
  }
}

TEST_F(TextReaderTest, every_spelling_of_lines_gives_the_same_rows) {
  std::string const header = "x,id,word\n";
  auto const expected = read("x,id,word\n1,2,a\n3,4,b\n", three_columns());
  for (std::string const bytes : {"x,id,word\n1,2,a\n3,4,b",
                                  "x,id,word\r\n1,2,a\r\n3,4,b\r\n",
                                  "\n\nx,id,word\n\n1,2,a\n\r\n\n3,4,b\n\n",
                                  "\xEF\xBB\xBFx,id,word\n1,2,a\n3,4,b\n",
                                  "\"x\",\"id\",word\n\"1\",2,\"a\"\n3,\"4\",b\n",
                                  "word,x,id\r\na,1,2\r\nb,3,4"}) {
    for (std::size_t const chunk : {1, 5, 1'000'000}) {
      auto options = three_columns();
      options.chunk_bytes = chunk;
      auto const rows = read(bytes, options);
      EXPECT_EQ(rows.floats("x"), expected.floats("x")) << bytes;
      EXPECT_EQ(rows.ints("id"), expected.ints("id")) << bytes;
      EXPECT_EQ(rows.ints("word"), expected.ints("word")) << bytes;
    }
  }
}

TEST_F(TextReaderTest, joins_fields_to_columns_and_divides_fields_into_values) {
  TextOptions const options{
      .columns = {
          {.name = "dense", .fields = {"b", "a"}, .if_empty = -1.0},
          {.name = "tags", .type = ColumnType::hashed, .value_separator = '|', .buckets = 100},
          {.name = "seen", .type = ColumnType::int64, .value_separator = ' '},
          {.name = "grade",
           .type = ColumnType::int64,
           .to_int = [](std::string_view text) -> std::optional<std::int64_t> {
             return text.size() == 1 ? std::optional<std::int64_t>(text[0] - 'A') : std::nullopt;
           },
           .expected = "a letter"}}};
  std::string const bytes = "a,b,tags,seen,grade\n1,2,red|green,5 6 7,B\n,3,,,A\n4,,red,8,C\n";
  auto const bucket = [](std::string_view word) { return bucket_of(string_key(word), 100); };
  for (bool const quoted : {false, true}) {
    auto const rows = read(quoted ? bytes + "\"0\",0,,,D\n" : bytes + "0,0,,,D\n", options);
    EXPECT_THAT(rows.floats("dense"), ElementsAre(2, 1, 3, -1, -1, 4, 0, 0));
    EXPECT_THAT(rows.ints("tags"), ElementsAre(bucket("red"), bucket("green"), bucket("red")));
    EXPECT_THAT(rows.offsets("tags"), ElementsAre(0, 2, 2, 3, 3));
    EXPECT_THAT(rows.ints("seen"), ElementsAre(5, 6, 7, 8));
    EXPECT_THAT(rows.offsets("seen"), ElementsAre(0, 3, 3, 4, 4));
    EXPECT_THAT(rows.ints("grade"), ElementsAre(1, 0, 2, 3));
  }
  EXPECT_EQ(failure("a,b,tags,seen,grade\n1,2,,5 x,B\n", options),
            "rows.csv:2: column 4 (seen): expected an integer, found '5 x'");
  EXPECT_EQ(failure("a,b,tags,seen,grade\n1,2,,5 ,B\n", options),
            "rows.csv:2: column 4 (seen): expected an integer, found '5 '");
  EXPECT_EQ(failure("a,b,tags,seen,grade\n1,2,,5,BB\n", options),
            "rows.csv:2: column 5 (grade): expected a letter, found 'BB'");
}

TEST_F(TextReaderTest, malformed_files_are_refused_with_file_line_and_column) {
  std::string const head = "x,id,word\n1,2,a\n";
  struct Malformed {
    std::string bytes;
    std::string message;
  };
  for (auto const& [bytes, message] : std::vector<Malformed>{
           {"", "rows.csv: expected a header, found an empty file"},
           {"\n\r\n", "rows.csv: expected a header, found an empty file"},
           {"x,word\n1,a\n",
            "rows.csv:1: column 'id': there is no field named 'id'; the fields are x, word"},
           {"\nx,id,word,x\n",
            "rows.csv:2: column 'x': there are several fields named 'x'; the fields are x, id, "
            "word, x"},
           {head + "1,2\n", "rows.csv:3: expected 3 columns, found 2"},
           {head + "1,2,a,b\n", "rows.csv:3: expected 3 columns, found 4"},
           {head + "\n\n1,2,a,b\n", "rows.csv:5: expected 3 columns, found 4"},
           {head + "1\n" + head, "rows.csv:3: expected 3 columns, found 1"},
           {head + "x,2,a\n1,2\n", "rows.csv:3: column 1 (x): expected a number, found 'x'"},
           {head + "1,2.5,a\nx,2,a\n",
            "rows.csv:3: column 2 (id): expected an integer, found '2.5'"},
           {head + "1,2,a\n\n1, 2,a", "rows.csv:5: column 2 (id): expected an integer, found ' 2'"},
           {head + ",2,a\n", "rows.csv:3: column 1 (x): expected a number, found ''"},
           {head + "1,,a\n", "rows.csv:3: column 2 (id): expected an integer, found ''"},
           {head + "nan,2,a\n", "rows.csv:3: column 1 (x): expected a number, found 'nan'"},
           {head + "inf,2,a\n", "rows.csv:3: column 1 (x): expected a number, found 'inf'"},
           {head + "1e99,2,a\n",
            "rows.csv:3: column 1 (x): expected a number from -3.4028235e+38 to 3.4028235e+38, "
            "found '1e99'"},
           {head + "0x1,2,a\n", "rows.csv:3: column 1 (x): expected a number, found '0x1'"},
           {head + "1-2,2,a\n", "rows.csv:3: column 1 (x): expected a number, found '1-2'"},
           {head + "-,2,a\n", "rows.csv:3: column 1 (x): expected a number, found '-'"},
           {head + "1,12:,a\n", "rows.csv:3: column 2 (id): expected an integer, found '12:'"},
           {head + "1,--1,a\n", "rows.csv:3: column 2 (id): expected an integer, found '--1'"},
           {head + "1,9223372036854775808,a\n",
            "rows.csv:3: column 2 (id): expected an integer from -9223372036854775808 to "
            "9223372036854775807, found '9223372036854775808'"},
           {head + "1,2,\"a\n", "rows.csv:3: a quoted value of this row is not closed"},
           {head + "1,2,\"a\"b\n",
            "rows.csv:3: column 3: expected ',' or the end of the line behind the quoted value "
            "'a'"},
           {head + "1,\"x\ny\",a\n", "rows.csv:3: column 2 (id): expected an integer, found 'x?y'"},
           {head + "\"1\",2,a\nx,2,a\n", "rows.csv:4: column 1 (x): expected a number, found 'x'"},
           {head + std::string("1,2,\0\n", 6), "rows.csv:3: expected text, found a NUL byte"},
       }) {
    EXPECT_EQ(failure(bytes, three_columns()), message) << bytes;
  }
}

TEST_F(TextReaderTest, the_first_bad_row_of_many_is_reported) {
  std::string bytes = "x,id,word\n";
  for (int row = 0; row < 1'000; ++row) {
    bytes += row == 500 ? "1,bad,w\n" : row == 501 ? "bad,1,w\n" : row > 700 ? "1,2\n" : "1,2,w\n";
  }
  EXPECT_EQ(failure(bytes, three_columns()),
            "rows.csv:502: column 2 (id): expected an integer, found 'bad'");
}

TEST_F(TextReaderTest, options_that_cannot_be_satisfied_are_refused) {
  auto const path = folder_.write("rows.csv", "x,id,word\n");
  auto const refusal = [&](TextOptions const& options) {
    return message_of<std::invalid_argument>([&] { CsvReader(path, options); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("at least one column"));
  EXPECT_THAT(refusal({.columns = {{"x"}, {"x"}}}), HasSubstr("two columns are named 'x'"));
  EXPECT_THAT(refusal({.columns = {{"x"}}, .header = false}), HasSubstr("names of the fields"));
  EXPECT_THAT(refusal({.columns = {{"y"}}, .header = false, .names = {"x"}}),
              HasSubstr("column 'y': there is no field named 'y'; the fields are x"));
  EXPECT_THAT(refusal({.columns = {{.name = "x", .buckets = 5}}}), HasSubstr("5 buckets"));
  EXPECT_THAT(refusal({.columns = {{"x"}}, .chunk_bytes = 0}), HasSubstr("chunk_bytes"));
  EXPECT_THAT(refusal({.columns = {{.name = "x", .fields = {"x", "id"}, .value_separator = '|'}}}),
              HasSubstr("a value_separator and 2 fields"));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { CsvReader(std::vector<TextFile>(), three_columns()); }),
              HasSubstr("at least one file"));
  EXPECT_THAT(message_of<DataError>([&] { CsvReader(folder_ / "none", three_columns()); }),
              HasSubstr("none: cannot open: No such file"));
}

TEST_F(TextReaderTest, a_header_must_be_the_names_that_are_given) {
  TextOptions const options{.columns = {{"a"}}, .names = {"a", "b"}};
  EXPECT_THAT(read("a,b\n1,2\n", options).floats("a"), ElementsAre(1));
  EXPECT_EQ(failure("b,a\n1,2\n", options), "rows.csv:1: expected the header 'a,b', found 'b,a'");
}

TEST_F(TextReaderTest, fields_may_have_another_character_between_them) {
  auto options = three_columns();
  options.separator = ';';
  auto const rows = read("word;x;id\n\"a;b\";1.5;7\n", options);
  EXPECT_THAT(rows.floats("x"), ElementsAre(1.5F));
  EXPECT_THAT(rows.ints("id"), ElementsAre(7));
  EXPECT_THAT(rows.ints("word"), ElementsAre(string_key("a;b")));
  options.separator = '|';
  TsvReader reader(folder_.write("rows.txt", "x|id|word\n1|2|\"a\tb\n"), options);
  EXPECT_THAT(rest_of(reader).ints("word"), ElementsAre(string_key("\"a\tb")));
  for (char const bad : {'"', '\n', '\r'}) {
    options.separator = bad;
    EXPECT_THAT(message_of<std::invalid_argument>([&] { read("x\n1\n", options); }),
                HasSubstr("the separator"));
  }
  options.separator = ' ';
  options.trim_spaces = true;
  EXPECT_THROW(read("x\n1\n", options), std::invalid_argument);
}

TEST_F(TextReaderTest, words_for_missing_values_count_as_empty_fields) {
  TextOptions options{.columns = {{.name = "x", .if_empty = 0.5},
                                  {.name = "id", .type = ColumnType::int64, .if_empty = -1},
                                  {.name = "word", .type = ColumnType::hashed},
                                  {.name = "tags",
                                   .type = ColumnType::int64,
                                   .if_empty = 9,
                                   .value_separator = '|'}},
                      .missing = {"-", "NA", "-999", ""}};
  std::string const bytes =
      "x,id,word,tags\n-,NA,-,NA\n-999,-9,NA,1|-|2\nNA,5,NAN,\n,-999,--,-\n2,-,,3\n";
  for (bool const quoted : {false, true}) {
    auto const rows =
        read(quoted ? bytes + "\"NA\",\"-\",\"-\",\"-\"\n" : bytes + "-,-,-,-\n", options);
    EXPECT_THAT(rows.floats("x"), ElementsAre(0.5F, 0.5F, 0.5F, 0.5F, 2, 0.5F));
    EXPECT_THAT(rows.ints("id"), ElementsAre(-1, -9, 5, -1, -1, -1));
    auto const none = string_key("");
    EXPECT_THAT(rows.ints("word"),
                ElementsAre(none, none, string_key("NAN"), string_key("--"), none, none));
    EXPECT_THAT(rows.ints("tags"), ElementsAre(1, 9, 2, 3));
    EXPECT_THAT(rows.offsets("tags"), ElementsAre(0, 0, 3, 3, 3, 4, 4));
  }
  options.columns[0].if_empty.reset();
  EXPECT_EQ(failure("x,id,word,tags\n1,1,a,1\n-999,2,a,1\n", options),
            "rows.csv:3: column 1 (x): expected a number, found '-999'");
  options = {.columns = {{.name = "x", .if_empty = 7}}, .missing = pandas_missing()};
  EXPECT_THAT(read("x\nNaN\nnull\nN/A\n#N/A N/A\n-1.#IND\n1\n", options).floats("x"),
              ElementsAre(7, 7, 7, 7, 7, 1));
}

TEST_F(TextReaderTest, numbers_have_any_sign_and_may_be_tiny) {
  auto const tiny = "0." + std::string(60, '0') + "1";
  auto const rows = read("x,id,word\n+1,+2,\n1e-50,-3,\n-1e-40,+400000000000,\n" + tiny +
                             ",1,\n1e-99999999999999999999,1,\n0e99999,0,\n",
                         three_columns());
  EXPECT_THAT(rows.floats("x"), ElementsAre(1, 0, -1e-40F, 0, 0, 0));
  EXPECT_THAT(rows.ints("id"), ElementsAre(2, -3, 400'000'000'000, 1, 1, 0));
  for (auto const* const bad : {"+", "++1", "+-1", "1e39x"}) {
    EXPECT_EQ(failure(std::string("x,id,word\n") + bad + ",1,\n", three_columns()),
              std::string("rows.csv:2: column 1 (x): expected a number, found '") + bad + "'");
  }
}

TEST_F(TextReaderTest, a_number_beyond_the_range_is_told_with_the_range) {
  for (auto const* const bad : {"1e999", "-1e99999999999999999999", "1e39", "+1e39"}) {
    EXPECT_EQ(failure(std::string("x,id,word\n") + bad + ",1,\n", three_columns()),
              std::string("rows.csv:2: column 1 (x): expected a number from -3.4028235e+38 to "
                          "3.4028235e+38, found '") +
                  bad + "'");
  }
  for (auto const* const bad : {"9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(failure(std::string("x,id,word\n1,") + bad + ",\n", three_columns()),
              std::string("rows.csv:2: column 2 (id): expected an integer from "
                          "-9223372036854775808 to 9223372036854775807, found '") +
                  bad + "'");
  }
  TextOptions const lists{.columns = {{.name = "x", .value_separator = '|'}}};
  EXPECT_THAT(failure("x\n1|1e39|2\n", lists), HasSubstr("from -3.4028235e+38 to 3.4028235e+38"));
  EXPECT_THAT(failure("x\n1|y|2\n", lists), HasSubstr("expected a number, found '1|y|2'"));
  TextOptions const steps{.columns = {{.name = "x", .transforms = {Transform::clip(0, 1)}}}};
  EXPECT_THAT(failure("x\n1e309\n", steps), HasSubstr("e+308, found '1e309'"));
}

TEST_F(TextReaderTest, a_value_for_empty_fields_is_one_of_the_type) {
  auto const refusal = [&](ColumnType type, double if_empty) {
    return message_of<std::invalid_argument>(
        [&] { read("x\n", {.columns = {{.name = "x", .type = type, .if_empty = if_empty}}}); });
  };
  using enum ColumnType;
  EXPECT_EQ(refusal(int64, 0.5), "column 'x' has the if_empty 0.5; expected a value of type int64");
  EXPECT_THAT(refusal(int64, 0x1p63), HasSubstr("the if_empty 9.223372036854776e+18"));
  EXPECT_THAT(refusal(int64, NAN), HasSubstr("the if_empty nan"));
  EXPECT_THAT(refusal(float32, NAN), HasSubstr("the if_empty nan; expected a value of type float"));
  EXPECT_THAT(refusal(float32, 1e300), HasSubstr("the if_empty 1e+300"));
  TextOptions const most{.columns = {{.name = "x", .type = int64, .if_empty = -0x1p63}}};
  EXPECT_THAT(read("x\n\"\"\n", most).ints("x"), ElementsAre(INT64_MIN));
}

TEST_F(TextReaderTest, a_file_whose_lines_end_with_cr_is_refused) {
  auto const expected = "rows.csv:1: line ends are CR; expected LF or CRLF";
  EXPECT_EQ(failure("x,id,word\r1,2,a\r3,4,b\r", three_columns()), expected);
  EXPECT_EQ(failure("x,id,word\r" + std::string(std::size_t{17} << 20U, '1'), three_columns()),
            expected);
  EXPECT_EQ(read("x,id,word\n1,2,a\rb\n", three_columns()).ints("word")[0], string_key("a\rb"));
  EXPECT_EQ(read("x,id,\"wo\rrd\"", {.columns = {{.name = "x"}}}).rows(), 0);
}

TEST_F(TextReaderTest, columns_of_a_schema_are_read_by_their_names) {
  Schema const schema({{.name = "id", .type = ColumnType::int64},
                       {.name = "x", .transforms = {Transform::log1p()}}});
  CsvReader reader(folder_.write("rows.csv", "x,id\n1,2\n"), {.columns = text_columns(schema)});
  EXPECT_EQ(reader.schema(), schema);
  EXPECT_THAT(rest_of(reader).ints("id"), ElementsAre(2));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [] { static_cast<void>(text_columns(Schema({{.name = "bag", .width = 2}}))); }),
              HasSubstr("column 'bag' has a width of 2"));
}

TEST_F(TextReaderTest, quotes_are_text_between_tabs) {
  TsvReader reader(
      folder_.write("rows.tsv", "1\t\"a\n2\tb\"\n"),
      {.columns = {{"x"}, {"word", ColumnType::hashed}}, .header = false, .names = {"x", "word"}});
  EXPECT_THAT(rest_of(reader).ints("word"), ElementsAre(string_key("\"a"), string_key("b\"")));
}

TEST_F(TextReaderTest, continues_at_every_position_in_any_of_several_files) {
  std::vector<TextFile> const files{folder_.write("1", "x,id,word\n1,1,a\n2,2,b\n3,3,c\n"),
                                    folder_.write("2", "word,id,x\n"),
                                    folder_.write("3", "word,id,x\n\nd,4,4\ne,5,5\n")};
  auto options = three_columns();
  options.chunk_bytes = 9;
  CsvReader reader(files, options);
  std::vector<Reader::Position> positions{Reader::Position()};
  std::vector<std::int64_t> rows{0};
  for (Chunk chunk(reader.schema()); reader.next(chunk); chunk.clear()) {
    positions.push_back(reader.position());
    rows.push_back(rows.back() + chunk.rows());
  }
  EXPECT_EQ(rows.back(), 5);
  for (std::size_t i = positions.size(); i-- > 0;) {
    CsvReader fresh(files, options);
    for (auto* const moved : {static_cast<Reader*>(&fresh), static_cast<Reader*>(&reader)}) {
      moved->seek(positions[i]);
      Values<std::int64_t> expected;
      for (std::int64_t id = rows[i] + 1; id <= 5; ++id) {
        expected.push_back(id);
      }
      EXPECT_EQ(rest_of(*moved).ints("id"), expected) << "from file " << positions[i].file;
    }
  }
  EXPECT_THAT(message_of<DataError>([&] { reader.seek({.file = 0, .offset = 10'000, .line = 9}); }),
              HasSubstr("the data ends"));
  reader.seek({});
  EXPECT_EQ(rest_of(reader).rows(), 5) << "usable after an error";
}

TEST_F(TextReaderTest, errors_behind_a_position_have_the_line_of_the_whole_file) {
  auto options = three_columns();
  options.chunk_bytes = 1;
  CsvReader reader(folder_.write("rows.csv", "x,id,word\n1,1,a\n\n2,2,b\n3,x,c\n"), options);
  Chunk chunk(reader.schema());
  ASSERT_TRUE(reader.next(chunk));
  auto const position = reader.position();
  CsvReader other(folder_ / "rows.csv", options);
  other.seek(position);
  EXPECT_THAT(message_of<DataError>([&] { rest_of(other); }),
              HasSubstr("rows.csv:5: column 2 (id)"));
}

TEST_F(TextReaderTest, reads_bytes_of_a_users_own_source) {
  class Bytes final : public ByteSource {
   public:
    std::size_t read(char* out, std::size_t bytes) override {
      auto const count = std::min({bytes, rest_.size(), std::size_t{3}});
      rest_.copy(out, count);
      rest_.remove_prefix(count);
      return count;
    }

   private:
    std::string_view rest_ = "x,id,word\n1,2,a\n3,4,b\n";
  };
  CsvReader reader(TextFile("memory", [] { return std::make_unique<Bytes>(); }), three_columns());
  EXPECT_THAT(rest_of(reader).ints("id"), ElementsAre(2, 4));
  reader.seek({});
  EXPECT_THAT(rest_of(reader).floats("x"), ElementsAre(1, 3));
}

}  // namespace
}  // namespace msstream::data
