// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/device_loader.hpp>
#include <msstream/tensor/copy.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ms = msstream;

/// Made-up clicks in the shape of Criteo's data: a label, 13 numbers and an id for each of 26
/// fields.
///
/// The probability of a click is sigmoid(z). z is a sum of a hidden weight for each number and each
/// id, and of hidden products of pairs of ids, which a model without interactions cannot express. A
/// row depends on its number alone, so any range of numbers serves as training or as held-out data.
namespace clicks {

constexpr int kNumbers = 13;
constexpr int kFields = 26;
constexpr std::int64_t kRowsOfTable = 100;  ///< distinct ids of each field

/// Returns a number in [0, 1) that depends on the arguments alone.
inline double uniform(std::uint64_t what, std::uint64_t a, std::uint64_t b) {
  std::uint64_t bits = what * 0x9E3779B97F4A7C15ULL + a * 0xBF58476D1CE4E5B9ULL + b;
  for (int round = 0; round < 3; ++round) {
    bits = (bits ^ (bits >> 31U)) * 0x94D049BB133111EBULL;
  }
  return static_cast<double>((bits ^ (bits >> 33U)) >> 11U) * 0x1p-53;
}
/// Returns a number of mean 0 and variance 1 that depends on the arguments alone.
inline double hidden(std::uint64_t what, std::uint64_t a, std::uint64_t b) {
  return (uniform(what, a, b) - 0.5) * std::sqrt(12.0);
}

/// Reads rows [begin, end).
class Reader final : public ms::data::Reader {
 public:
  Reader(std::int64_t begin, std::int64_t end)
      : schema_(columns()), begin_(begin), end_(end), row_(begin) {}

  [[nodiscard]] ms::data::Schema const& schema() const override { return schema_; }
  bool next(ms::data::Chunk& chunk) override {
    constexpr std::int64_t kRowsOfChunk = 4096;
    auto const end = std::min(end_, row_ + kRowsOfChunk);
    bool const has_rows = row_ < end;
    for (; row_ < end; ++row_) {
      append_row(chunk, static_cast<std::uint64_t>(row_));
    }
    return has_rows;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_ - begin_}; }
  void seek(Position const& position) override { row_ = begin_ + position.offset; }

 private:
  static ms::data::Schema columns() {
    std::vector<ms::data::Column> columns{{.name = "label"}, {.name = "dense", .width = kNumbers}};
    for (int field = 0; field < kFields; ++field) {
      columns.push_back(
          {.name = "id" + std::to_string(field), .type = ms::data::ColumnType::int64});
    }
    return ms::data::Schema(columns);
  }
  static void append_row(ms::data::Chunk& chunk, std::uint64_t row) {
    double z = -1.0;
    for (std::uint64_t i = 0; i < kNumbers; ++i) {
      auto const number = hidden(1, row, i);
      z += 0.15 * hidden(2, i, 0) * number;
      chunk.floats("dense").push_back(static_cast<float>(number));
    }
    std::array<std::uint64_t, kFields> ids;
    for (std::uint64_t field = 0; field < kFields; ++field) {
      // Small ids are more frequent, as in real data.
      auto const draw = uniform(3, row, field);
      ids[field] = static_cast<std::uint64_t>(draw * draw * static_cast<double>(kRowsOfTable));
      z += 0.2 * hidden(4, field, ids[field]);
      chunk.ints(2 + field).push_back(static_cast<std::int64_t>(ids[field]));
    }
    for (std::uint64_t field = 0; field + 1 < 12; field += 2) {
      for (std::uint64_t k = 0; k < 2; ++k) {
        z += 0.4 * hidden(5 + k, field, ids[field]) * hidden(7 + k, field, ids[field + 1]);
      }
    }
    bool const is_click = uniform(9, row, 0) < 1.0 / (1.0 + std::exp(-z));
    chunk.floats("label").push_back(is_click ? 1.0F : 0.0F);
  }

  ms::data::Schema schema_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t row_;
};

/// Returns the shape of the table of each field.
inline std::vector<ms::Shape> table_shapes(std::int64_t width) {
  return std::vector<ms::Shape>(kFields, {kRowsOfTable, width});
}

/// Returns the ids of a batch as clients of a served model have them: row by row, in host memory.
inline std::vector<std::int64_t> ids_by_row(ms::data::DeviceBatch<> const& batch) {
  auto const by_field = ms::to_host(batch.ints("id0", "id25"));
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < batch.rows(); ++row) {
    for (std::int64_t field = 0; field < kFields; ++field) {
      ids.push_back(by_field[static_cast<std::size_t>(field * batch.rows() + row)]);
    }
  }
  return ids;
}

/// Returns the labels of a batch, [rows, 1].
inline ms::Tensor<float> labels_of(ms::data::DeviceBatch<> const& batch) {
  return batch.floats("label").reshaped({batch.rows(), 1});
}

/// Returns the rows [begin, end) in batches on the device.
inline ms::data::DeviceLoader<> batches(ms::Device<> const& device,
                                        ms::StreamGroup<> const& group,
                                        std::int64_t begin,
                                        std::int64_t end) {
  return {device, group, std::make_shared<Reader>(begin, end), {.batch_size = 512}};
}

}  // namespace clicks
