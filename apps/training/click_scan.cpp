// SPDX-License-Identifier: Apache-2.0
#include "training/click_scan.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>

namespace msstream::training {

namespace {

/// The buckets of a table per distinct key, enough for few collisions. Tables are updated by row,
/// so unused rows cost only memory.
constexpr std::int64_t kBucketsPerKey = 32;
constexpr std::int64_t kLeastBuckets = 1024;
constexpr std::int64_t kMostBuckets = 1'000'000;

/// Returns the most values that a row of the chunk has in a column of integers.
std::int64_t most_values(data::Chunk const& chunk, std::string const& name) {
  auto const& schema = chunk.schema();
  auto const& column = schema.columns()[schema.index_of(name)];
  if (!column.is_jagged()) {
    return column.width;
  }
  std::int64_t most = 0;
  auto const& offsets = chunk.offsets(name);
  for (std::size_t row = 1; row < offsets.size(); ++row) {
    most = std::max(most, offsets[row] - offsets[row - 1]);
  }
  return most;
}

}  // namespace

std::string to_string(ClickCounts const& counts) {
  return nlohmann::json{
      {"rows", counts.rows}, {"most_keys", counts.most_keys}, {"table_rows", counts.table_rows}}
      .dump();
}

std::optional<ClickCounts> counts_in_checkpoint(std::string const& path) {
  checkpoint::SafetensorsFile const file(path);
  auto const found = file.metadata().find("counts");
  if (found == file.metadata().end()) {
    return std::nullopt;
  }
  try {
    auto const json = nlohmann::json::parse(found->second);
    return ClickCounts{json.at("rows").get<std::int64_t>(),
                       json.at("most_keys").get<std::vector<std::int64_t>>(),
                       json.at("table_rows").get<std::vector<std::int64_t>>()};
  } catch (nlohmann::json::exception const& error) {
    require(false, "{}: metadata 'counts': {}", path, error.what());
    throw;
  }
}

std::int64_t table_rows_for(std::int64_t distinct_keys) noexcept {
  return std::clamp(distinct_keys * kBucketsPerKey, kLeastBuckets, kMostBuckets);
}

void require_labels(data::Chunk const& chunk,
                    std::vector<std::string> const& labels,
                    std::string const& origin) {
  for (auto const& label : labels) {
    for (auto const value : chunk.floats(label)) {
      if (value != 0.0F && value != 1.0F) {
        throw data::DataError(
            fmt::format("{}: column '{}': expected 0 or 1, found {}", origin, label, value));
      }
    }
  }
}

ClickScan::ClickScan(data::Schema const& schema, bool counts_keys)
    : columns_(datasets::click_columns(schema)),
      counts_keys_(counts_keys),
      most_keys_(columns_.categorical.size(), 0),
      keys_(columns_.categorical.size()) {}

void ClickScan::add(data::Chunk const& chunk) {
  std::vector<std::int64_t> most;
  for (auto const& field : columns_.categorical) {
    most.push_back(most_values(chunk, field));
  }
  std::lock_guard const lock(mutex_);
  rows_ += chunk.rows();
  for (std::size_t field = 0; field < most.size(); ++field) {
    most_keys_[field] = std::max(most_keys_[field], most[field]);
    if (!counts_keys_) {
      continue;
    }
    auto& keys = keys_[field];
    for (auto const key : chunk.ints(columns_.categorical[field])) {
      if (keys.count() * kBucketsPerKey >= kMostBuckets) {
        break;  // the table is as large as it gets
      }
      keys.insert(key);
    }
  }
}

ClickCounts ClickScan::counts() const {
  std::lock_guard const lock(mutex_);
  ClickCounts counts{.rows = rows_, .most_keys = most_keys_, .table_rows = {}};
  for (std::size_t field = 0; counts_keys_ && field < keys_.size(); ++field) {
    counts.table_rows.push_back(table_rows_for(keys_[field].count()));
  }
  return counts;
}

}  // namespace msstream::training
