// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>
#include <msstream/data/text_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::data {

struct LibSvmOptions {
  std::string label = "label";    ///< a float32 column
  std::string indices = "index";  ///< a jagged int64 column: the features that a row has
  std::string values = "value";   ///< a jagged float32 column: their values
  /// The int64 column of the numbers in `qid:number`. Empty: such words are an error.
  std::string query = {};
  std::int64_t first_index = 1;  ///< the index of the first feature in the file, which becomes 0
  /// The number of features; larger indices are an error. 0: unlimited.
  std::int64_t features = 0;
  std::int64_t max_bad_rows = 0;  ///< lines to leave out: see TextOptions::max_bad_rows
  std::size_t chunk_bytes = std::size_t{1} << 18U;  ///< that a task parses, at least 1
};

/// Reads rows in the format of LibSVM, `label index:value …`, in which indices ascend, and that of
/// SVMrank, `label qid:number index:value …`. What follows a `#` is a comment.
///
/// Files may be gzip-compressed, and lines may end with LF or CRLF; blank ones do not count.
/// Unexpected content is a DataError, `file:line: expected …, found '…'`. After an error, seek()
/// makes the reader usable again.
class LibSvmReader final : public Reader {
 public:
  /// Opens the first file. Throws DataError, and std::invalid_argument for options that cannot be
  /// satisfied.
  explicit LibSvmReader(std::vector<TextFile> files, LibSvmOptions options = {});
  explicit LibSvmReader(TextFile file, LibSvmOptions options = {})
      : LibSvmReader(std::vector{std::move(file)}, std::move(options)) {}
  ~LibSvmReader() override;

  [[nodiscard]] Schema const& schema() const override;
  bool next(Chunk& chunk) override;
  [[nodiscard]] Position position() const override;
  /// Continues at the position. In a gzip file, everything before it is inflated again.
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override;
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override;
  [[nodiscard]] BadRows bad_rows() const override;

 private:
  class Rows;
  std::unique_ptr<Rows> rows_;
};

}  // namespace msstream::data
