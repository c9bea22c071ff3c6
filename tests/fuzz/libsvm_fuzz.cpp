// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of LibSVM files. The first byte selects the options, the others are the file.
// It must either be read as the same rows or be refused by a DataError with the same message,
// regardless of chunk size, line ends and compression.
#include "fuzz.hpp"
#include "gzip.hpp"
#include "scratch_folder.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>

#include <algorithm>
#include <cmath>
#include <variant>

namespace {

using namespace msstream;
using data::LibSvmOptions;
using fuzz::expect;

struct Rows {
  std::vector<float> labels;
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> counts;  ///< of the features of each row
  std::vector<std::int64_t> indices;
  std::vector<float> values;

  friend bool operator==(Rows const&, Rows const&) = default;
};
using Outcome = std::variant<Rows, std::string>;

template <class T>
void append(std::vector<T>& all, data::Values<T> const& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Outcome read(std::string_view bytes, LibSvmOptions options, std::size_t chunk_bytes) {
  static fuzz::ScratchFolder const folder;
  options.chunk_bytes = chunk_bytes;
  try {
    data::LibSvmReader reader(folder.write("data", bytes), options);
    Rows rows;
    data::Chunk chunk(reader.schema());
    for (; auto const counted = reader.next_counted_task(); chunk.clear()) {
      counted->task(chunk);
      chunk.check();
      expect(chunk.rows() == counted->rows, "{} rows, counted {}", chunk.rows(), counted->rows);
      append(rows.labels, chunk.floats("label"));
      append(rows.indices, chunk.ints("index"));
      append(rows.values, chunk.floats("value"));
      if (!options.query.empty()) {
        append(rows.queries, chunk.ints(options.query));
      }
      auto const& offsets = chunk.offsets("index");
      expect(offsets == chunk.offsets("value"), "indices and values have other offsets");
      for (std::size_t row = 1; row < offsets.size(); ++row) {
        rows.counts.push_back(offsets[row] - offsets[row - 1]);
      }
    }
    return rows;
  } catch (data::DataError const& error) {
    expect(std::string_view(error.what()).find("/data:") != std::string_view::npos,
           "the message does not name the file: {}",
           error.what());
    return error.what();
  }
}

void expect_valid(Rows const& rows, LibSvmOptions const& options) {
  auto const finite = [](float number) { return std::isfinite(number); };
  expect(std::ranges::all_of(rows.labels, finite) && std::ranges::all_of(rows.values, finite),
         "a number is not finite");
  std::size_t at = 0;
  for (auto const count : rows.counts) {
    std::int64_t last = -1;
    for (auto left = count; left > 0; --left) {
      auto const index = rows.indices[at++];
      expect(index > last, "index {} behind {}", index, last);
      expect(options.features == 0 || index < options.features, "index {}", index);
      last = index;
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  if (count == 0) {
    return 0;
  }
  auto const input = fuzz::as_text(bytes, count).substr(1);
  LibSvmOptions const options{.query = (bytes[0] & 1U) != 0 ? "query" : "",
                              .first_index = (bytes[0] & 2U) != 0 ? 0 : 1,
                              .features = (bytes[0] & 4U) != 0 ? 100 : 0};
  constexpr std::size_t one_chunk = 8'192;
  auto const outcome = read(input, options, one_chunk);
  if (auto const* const rows = std::get_if<Rows>(&outcome)) {
    expect_valid(*rows, options);
  }
  expect(read(input, options, 1) == outcome, "other rows in chunks of a line");
  expect(read(input, options, 2 + count / 3) == outcome, "other rows in a few chunks");
  if (!input.starts_with("\x1f\x8b")) {
    expect(read(fuzz::gzipped(input), options, one_chunk) == outcome, "other rows of a gzip file");
    if (input.find('\r') == std::string_view::npos) {
      expect(read(fuzz::replaced(input, "\n", "\r\n"), options, one_chunk) == outcome,
             "other rows with CRLF");
    }
  }
  return 0;
}
