// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/support/table.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace msstream::support {

/// The text formats that can be read.
enum class DataFormat : std::uint8_t {
  automatic,   ///< told from the first line
  census,      ///< Census-Income (KDD): 42 fields apart by commas and spaces, no header
  criteo_csv,  ///< header `Id,Label,I1..I13,C1..C26`
  criteo_tsv,  ///< label, 13 numbers, 26 hexadecimal words, apart by tabs, no header
};

/// What users call the format: `auto`, `census`, `criteo-csv`, `criteo-tsv`.
[[nodiscard]] std::string_view name_of(DataFormat format);

struct ReaderOptions {
  DataFormat format = DataFormat::automatic;
  /// Census only: a second label, "never married", from field 7, which then is no input: the two
  /// tasks of the MMoE paper (Ma et al. 2018, section 5).
  bool never_married_task = false;
  /// How much text a task parses, at least 1; a line is never cut.
  std::size_t chunk_bytes = std::size_t{1} << 20U;
};

/// Opens a file, gzip-compressed or not: the contents decide, not the name.
///
/// Categorical values become keys (see categorical_key). Continuous values are as they stand in the
/// census data; in Criteo's they are log(1 + max(x, 0)), 0 when missing. Standardise them next.
///
/// Between commas values may be quoted as RFC 4180 says: separators and line ends inside are part
/// of the value, two quotes are one. Between tabs quotes are text. Line ends may be LF or CRLF, the
/// last may be missing, blank lines do not count as rows, and a byte order mark (UTF-8) is left
/// out. Of gzip there may be several members, and zeros behind the last. Everything else that is
/// unexpected is a DataError, `file:line: column N (name): expected …, found '…'`, from here or
/// from the source's next() and tasks: a missing or unreadable file, a folder, no rows, too few or
/// too many fields, a bad number or label, a number beyond 1e12, a quote that is not closed, a line
/// of more than 16 MiB, a NUL byte, a damaged or cut gzip stream. Options that cannot be met are
/// std::invalid_argument.
[[nodiscard]] std::unique_ptr<RowSource> open_data(std::filesystem::path const& path,
                                                   ReaderOptions const& options = {});

}  // namespace msstream::support
