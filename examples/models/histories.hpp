// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/device_loader.hpp>
#include <msstream/tensor/copy.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

namespace ms = msstream;

/// Made-up histories: the items that a user has touched, as in data of book shops, and the item
/// that comes next.
///
/// Items belong to hidden topics. A user has two topics, and most of the items of a history are of
/// one of them. A row depends on the number of its user alone, so any range of numbers serves as
/// training or as held-out users.
namespace histories {

constexpr std::int64_t kItems = 1000;
constexpr std::int64_t kTopics = 50;  ///< topic t has the items t, t + kTopics, …

/// Random numbers that depend on a seed alone.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL) {}
  /// Returns a number in [0, limit).
  std::int64_t below(std::int64_t limit) {
    state_ += 0x9E3779B97F4A7C15ULL;
    auto bits = (state_ ^ (state_ >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBULL;
    return static_cast<std::int64_t>((bits ^ (bits >> 31U)) >> 2U) % limit;
  }

 private:
  std::uint64_t state_;
};

/// Reads the users [begin, end): columns `history`, jagged, `item`, and `label`. With `clicks`,
/// half of the items are items of random topics, with the label 0; otherwise all labels are 1.
class Reader final : public ms::data::Reader {
 public:
  Reader(std::int64_t begin, std::int64_t end, bool clicks)
      : begin_(begin), end_(end), clicks_(clicks), user_(begin) {}

  [[nodiscard]] ms::data::Schema const& schema() const override { return schema_; }
  bool next(ms::data::Chunk& chunk) override {
    constexpr std::int64_t kRowsOfChunk = 4096;
    auto const end = std::min(end_, user_ + kRowsOfChunk);
    bool const has_rows = user_ < end;
    for (; user_ < end; ++user_) {
      append_row(chunk);
    }
    return has_rows;
  }
  [[nodiscard]] Position position() const override { return {.offset = user_ - begin_}; }
  void seek(Position const& position) override { user_ = begin_ + position.offset; }

 private:
  void append_row(ms::data::Chunk& chunk) const {
    Draws draws(static_cast<std::uint64_t>(user_));
    std::int64_t const topics[] = {draws.below(kTopics), draws.below(kTopics)};
    auto const draw_item = [&] {
      bool const is_typical = draws.below(8) > 0;
      auto const topic = is_typical ? topics[draws.below(2)] : draws.below(kTopics);
      // Items with small numbers are more popular.
      auto const rank = draws.below(kItems / kTopics) * draws.below(kItems / kTopics);
      return topic + kTopics * (rank * kTopics / kItems);
    };
    auto& history = chunk.ints("history");
    // One user in thirty has a long history.
    auto const is_long = draws.below(30) == 0;
    for (auto length = is_long ? 33 + draws.below(200) : 4 + draws.below(20); length > 0;
         --length) {
      history.push_back(draw_item());
    }
    chunk.offsets("history").push_back(static_cast<std::int64_t>(history.size()));
    bool const is_next = !clicks_ || draws.below(2) == 0;
    chunk.ints("item").push_back(is_next ? draw_item() : draws.below(kItems));
    chunk.floats("label").push_back(is_next ? 1.0F : 0.0F);
  }

  ms::data::Schema schema_{
      {{.name = "history", .type = ms::data::ColumnType::int64, .width = ms::data::kJagged},
       {.name = "item", .type = ms::data::ColumnType::int64},
       {.name = "label"}}};
  std::int64_t begin_;
  std::int64_t end_;
  bool clicks_;
  std::int64_t user_;
};

/// Returns the labels of a batch, [rows, 1].
inline ms::Tensor<float> labels_of(ms::data::DeviceBatch<> const& batch) {
  return batch.floats("label").reshaped({batch.rows(), 1});
}

/// Returns whether answers are the logits of a batch, except for the rounding of matrix products of
/// other numbers of rows.
inline bool close(std::vector<float> const& answers, ms::Tensor<float> const& logits) {
  return std::ranges::equal(
      answers, ms::to_host(logits), [](float a, float b) { return std::abs(a - b) < 1e-4F; });
}

/// Returns the users [begin, end) in full batches of 256 on the device.
inline ms::data::DeviceLoader<> batches(ms::Device<> const& device,
                                        std::int64_t begin,
                                        std::int64_t end,
                                        bool clicks = false) {
  return {device,
          device.default_group(),
          std::make_shared<Reader>(begin, end, clicks),
          {.batch_size = 256, .last_batch = ms::data::LastBatch::dropped}};
}

}  // namespace histories
