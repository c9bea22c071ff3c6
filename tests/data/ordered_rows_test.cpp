// SPDX-License-Identifier: Apache-2.0
#include "data/ordered_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace msstream::data::detail {
namespace {

/// A reader of two chunks, of which the first is parsed behind the second. A chunk has its number.
class LateFirstChunk final : public Reader {
 public:
  /// The chunk `broken` throws std::runtime_error.
  explicit LateFirstChunk(std::int64_t broken) : broken_(broken) {}

  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk&) override { throw std::logic_error("expected next_task()"); }
  [[nodiscard]] Task next_task() override {
    auto const number = next_++;
    if (number == 2) {
      return {};
    }
    return [this, number](Chunk& chunk) {
      if (number == 0) {
        second_is_parsed_.wait(false);
      }
      chunk.ints("number").push_back(number);
      second_is_parsed_ = true;
      second_is_parsed_.notify_all();
      if (number == broken_) {
        throw std::runtime_error("broken");
      }
    };
  }
  [[nodiscard]] Position position() const override { return {.offset = next_}; }
  void seek(Position const& position) override { next_ = position.offset; }

 private:
  Schema schema_{{{.name = "number", .type = ColumnType::int64}}};
  std::int64_t broken_;
  std::int64_t next_ = 0;
  std::atomic<bool> second_is_parsed_ = false;
};

TEST(OrderedRows, gives_chunks_in_their_order_up_to_the_first_error) {
  for (std::int64_t const broken : {0, 1, 2}) {
    LateFirstChunk reader(broken);
    std::vector<std::int64_t> numbers;
    OrderedRows rows(reader, {}, [&](Chunk& chunk) {
      numbers.insert(numbers.end(), chunk.ints("number").begin(), chunk.ints("number").end());
    });
    rows.read(3);
    std::vector<std::int64_t> const all{0, 1};
    EXPECT_THAT(numbers, ::testing::ElementsAreArray(all.begin(), all.begin() + broken));
    if (broken < 2) {
      EXPECT_THROW(rows.rethrow(), std::runtime_error);
    } else {
      rows.rethrow();
    }
  }
}

}  // namespace
}  // namespace msstream::data::detail
