// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>
#include <msstream/data/transform.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// The formats that can be read.
enum class DataFormat : std::uint8_t {
  automatic,       ///< recognised from the first line, or the first bytes
  census,          ///< Census-Income (KDD): 42 fields, separated by commas and spaces, no header
  criteo_csv,      ///< CSV with the header `Id,Label,I1..I13,C1..C26`
  criteo_tsv,      ///< label, 13 numbers, 26 hexadecimal words, separated by tabs, no header
  criteo_parquet,  ///< Parquet with the fields Label, I1..I13 and C1..C26, in any order
};

/// Returns the name of the format for users: `auto`, `census`, `criteo-csv`, `criteo-tsv`,
/// `criteo-parquet`.
[[nodiscard]] std::string_view name_of(DataFormat format);

struct ReaderOptions {
  DataFormat format = DataFormat::automatic;
  /// Adds a second label, "never married", from field 7, which then is no input. For census data
  /// only. The two labels are the tasks of the MMoE paper (Ma et al. 2018, section 5).
  bool never_married_task = false;
  /// For multi-hot Criteo data, with an entry for each of C1..C26: the transforms of its column.
  /// Each field then holds a list of any length: in text, words with `|` between them, of which an
  /// empty field has none; in Parquet, a list. Columns are jagged. Empty: fields hold one word, in
  /// which a `|` is an error.
  std::vector<std::vector<data::Transform>> lists = {};
  /// The number of bytes that a task parses, at least 1. A line is never divided.
  std::size_t chunk_bytes = std::size_t{1} << 20U;
};

/// Opens a data file, which may be gzip-compressed: the contents decide, not the name.
///
/// The columns are those of ClickColumns. Categorical values become keys by data::string_key(); an
/// unknown one has the key of the empty string, also if it is `?`. The transforms of the continuous
/// values normalise them; those of Criteo data first take log(1 + max(x, 0)), or 0 if missing.
///
/// Parquet files are read if the library is built with MSSTREAM_ARROW, and are a DataError
/// otherwise. C1..C26 are all strings, or all integers, which are keys themselves; a null is the
/// empty string, or the key -1.
///
/// Values separated by commas may be quoted as in RFC 4180: separators and line ends inside quotes
/// are part of the value, and two quotes stand for one. Between tabs, quotes are text. Line ends
/// may be LF or CRLF, the last one may be missing, blank lines do not count as rows, and a byte
/// order mark (UTF-8) is skipped. A gzip file may have several members, and zeros after the last
/// one. All other unexpected content is a DataError, `file:line: column N (name): expected …, found
/// '…'`, from this function or from the reader: a missing or unreadable file, a
/// folder, no rows, too few or too many fields, a bad number or label, a number beyond 1e12, a
/// quote that is not closed, a line of more than 16 MiB, a NUL byte, a damaged or truncated gzip
/// stream. Throws std::invalid_argument for options that cannot be satisfied. A pipe can be read
/// once, without seek().
[[nodiscard]] std::unique_ptr<data::Reader> open_data(std::filesystem::path const& path,
                                                      ReaderOptions const& options = {});
/// Opens files of one format, which the first one decides, as those of one data set: the rows of
/// one file follow those of the file before it. A text file without rows that is not the first one
/// adds none. Throws std::invalid_argument without a file.
[[nodiscard]] std::unique_ptr<data::Reader> open_data(
    std::vector<std::filesystem::path> const& paths, ReaderOptions const& options = {});

/// Returns the files that an option such as `day_0,day_1` names, in their order. If there is a file
/// of that very name, with its commas, it is the only one. Empty: none.
[[nodiscard]] std::vector<std::filesystem::path> data_paths(std::string const& option);

}  // namespace msstream::datasets
