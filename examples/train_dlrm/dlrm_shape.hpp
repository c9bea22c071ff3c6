// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/precision.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace train_dlrm {

namespace ms = msstream;

inline constexpr std::int64_t kNumbers = 13;
inline constexpr std::size_t kFields = 26;

/// The number of rows of each table, and the ids in each bag of it, in MLPerf's multi-hot form of
/// Criteo's click logs (MLCommons, training/recommendation_v2).
inline constexpr std::array<std::int64_t, kFields> kMlperfRows{
    40'000'000, 39'060,     17'295,     7'424,      20'265,  3,      7'122, 1'543, 63,
    40'000'000, 3'067'956,  405'282,    10,         2'209,   11'938, 155,   4,     976,
    14,         40'000'000, 40'000'000, 40'000'000, 590'152, 12'973, 108,   36};
inline constexpr std::array<std::int64_t, kFields> kMlperfHotness{
    3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};

/// The function that combines the bottom layers' output with the pooled rows of all fields.
enum class Interaction : std::uint8_t {
  cross,  ///< the cross network of DCN-v2
  dot,    ///< the dot products of DLRM
};

/// How the model looks up rows: for all fields at once, or for each field as a branch on a stream
/// group.
enum class TableForm : std::uint8_t { fused, branches };

/// The sizes of a DLRM, those of MLPerf by default.
struct DlrmShape {
  std::int64_t max_rows = 1'000'000;  ///< rows of a table at most
  std::int64_t max_hotness = 100;     ///< ids in a bag at most
  std::int64_t dimension = 128;       ///< columns of a table, and outputs of the bottom layers
  std::vector<std::int64_t> bottom{512, 256};  ///< without the last, `dimension`
  std::vector<std::int64_t> top{1024, 1024, 512, 256, 1};
  TableForm tables = TableForm::fused;
  bool rows_beside = false;  ///< whether all work on rows has a stream group; of fused tables
  Interaction interaction = Interaction::cross;
  std::int64_t cross_layers = 3;
  std::int64_t cross_rank = 512;
  ms::Precision precision = ms::Precision::fp32;
  bool fp8_products = false;  ///< whether top and bottom layers multiply 8-bit floats
  bool hashes_ids = false;    ///< whether ids are any numbers, of which a hash gives the row
  bool is_multi_hot = false;  ///< whether bags have offsets, and any number of rows as their ids
  bool half_tables =
      false;  ///< whether tables have float16 or bfloat16 rows, as the precision says
  std::uint64_t seed = 1;

  /// Returns the type of the tables' rows.
  [[nodiscard]] ms::DType table_dtype() const {
    return ms::with_precision(half_tables ? precision : ms::Precision::fp32, [](auto type) {
      return ms::dtype_of<typename decltype(type)::type>;
    });
  }
  [[nodiscard]] std::int64_t rows(std::size_t field) const {
    return std::min(kMlperfRows[field], max_rows);
  }
  [[nodiscard]] std::int64_t hotness(std::size_t field) const {
    return std::min(kMlperfHotness[field], max_hotness);
  }
  /// Returns the number of ids of a sample in all fields.
  [[nodiscard]] std::int64_t ids() const {
    std::int64_t sum = 0;
    for (std::size_t field = 0; field < kFields; ++field) {
      sum += hotness(field);
    }
    return sum;
  }
};

/// Returns the name of the table of a field, numbered from 0.
inline std::string table_name(std::size_t field) {
  return "table/" + std::to_string(field);
}

}  // namespace train_dlrm
