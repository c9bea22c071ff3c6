// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of raw binary columns. Three bytes select the type of the values, their number
// in a row and the bytes of the offsets' file; offsets and values follow. A column must either be
// read as the same rows, or be refused by a DataError that names a file, regardless of chunk size.
#include "fuzz.hpp"
#include "scratch_folder.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace {

using namespace msstream;
using data::BinaryColumn;
using fuzz::expect;

struct Rows {
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> counts;  ///< of the values of each row of a jagged column

  friend bool operator==(Rows const&, Rows const&) = default;
};

std::optional<Rows> read(BinaryColumn const& column, std::int64_t chunk_rows) {
  try {
    data::BinaryReader reader({column}, {.chunk_rows = chunk_rows});
    auto const& schema = reader.schema().columns().front();
    Rows rows;
    std::int64_t count = 0;
    for (data::Chunk chunk(reader.schema()); reader.next(chunk); chunk.clear()) {
      chunk.check();
      count += chunk.rows();
      if (schema.is_float()) {
        rows.floats.insert(rows.floats.end(), chunk.floats(0).begin(), chunk.floats(0).end());
      } else {
        rows.ints.insert(rows.ints.end(), chunk.ints(0).begin(), chunk.ints(0).end());
      }
      for (std::int64_t row = 0; schema.is_jagged() && row < chunk.rows(); ++row) {
        auto const* const offset = chunk.offsets(0).data() + row;
        rows.counts.push_back(offset[1] - offset[0]);
      }
    }
    expect(count == reader.rows(), "{} rows of {}", count, reader.rows());
    expect(std::ranges::all_of(rows.floats, [](float x) { return std::isfinite(x); }),
           "a number is not finite");
    return rows;
  } catch (data::DataError const& error) {
    std::string_view const message = error.what();
    expect(message.find("/values: ") != std::string_view::npos ||
               message.find("/offsets: ") != std::string_view::npos,
           "the message does not name a file: {}",
           message);
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  static fuzz::ScratchFolder const folder;
  constexpr std::size_t head = 3;
  if (count < head) {
    return 0;
  }
  auto const rest = fuzz::as_text(bytes, count).substr(head);
  BinaryColumn column{.name = "x",
                      .stored = static_cast<BinaryColumn::Stored>(bytes[0] % 9),
                      .width = bytes[1] % 4};
  auto const offset_bytes = std::min<std::size_t>(column.width == 0 ? bytes[2] : 0, rest.size());
  if (column.width == data::kJagged) {
    column.offsets = folder.write("offsets", rest.substr(0, offset_bytes));
  }
  column.path = folder.write("values", rest.substr(offset_bytes));
  auto const rows = read(column, 8'192);
  for (std::int64_t const chunk_rows : {1, 3}) {
    expect(read(column, chunk_rows) == rows, "other rows in chunks of {}", chunk_rows);
  }
  return 0;
}
