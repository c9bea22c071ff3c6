// SPDX-License-Identifier: Apache-2.0
#include "datasets/dataset.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace msstream::datasets {

namespace {

template <class T>
void append(std::vector<T>& all, std::vector<T>& part) {
  all.insert(all.end(), part.begin(), part.end());
  part = {};  // frees the block's memory once it has been copied
}

/// Counts distinct keys by open addressing. Keys are hashes already, so their low bits select the
/// slot.
class KeyCounter {
 public:
  void insert(std::int64_t key) {
    if (key == kEmpty) {
      has_empty_ = true;
      return;
    }
    if (2 * (count_ + 1) > slots_.size()) {
      grow();
    }
    place(key);
  }
  [[nodiscard]] std::int64_t count() const noexcept {
    return static_cast<std::int64_t>(count_) + (has_empty_ ? 1 : 0);
  }

 private:
  static constexpr std::int64_t kEmpty = 0;

  void place(std::int64_t key) {
    auto slot = static_cast<std::size_t>(key) & (slots_.size() - 1);
    while (slots_[slot] != kEmpty && slots_[slot] != key) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    count_ += slots_[slot] == kEmpty ? 1 : 0;
    slots_[slot] = key;
  }
  void grow() {
    auto const old = std::exchange(slots_, std::vector<std::int64_t>(2 * slots_.size(), kEmpty));
    count_ = 0;
    for (auto const key : old) {
      if (key != kEmpty) {
        place(key);
      }
    }
  }

  std::vector<std::int64_t> slots_ = std::vector<std::int64_t>(64, kEmpty);
  std::size_t count_ = 0;
  bool has_empty_ = false;
};

/// Collects the blocks of a source in their order. Each thread takes the next task when it has
/// finished one. Tasks are taken one at a time, so all tasks before a failing one have been taken,
/// too.
class ParallelLoad {
 public:
  explicit ParallelLoad(RowSource& source) : source_(source) {}

  void work() {
    while (true) {
      std::size_t index = 0;
      RowTask task;
      {
        std::lock_guard const lock(mutex_);
        if (finished_) {
          return;
        }
        index = blocks_.size();
        try {
          task = source_.next();
        } catch (...) {
          fail(index, std::current_exception());
        }
        if (!task) {
          finished_ = true;
          return;
        }
        blocks_.emplace_back();
      }
      try {
        RowBlock block = task();
        std::lock_guard const lock(mutex_);
        blocks_[index] = std::move(block);
      } catch (...) {
        std::lock_guard const lock(mutex_);
        fail(index, std::current_exception());
        finished_ = true;
      }
    }
  }

  [[nodiscard]] std::vector<RowBlock> take() {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return std::move(blocks_);
  }

 private:
  void fail(std::size_t index, std::exception_ptr failure) noexcept {
    if (index < failed_index_) {
      failed_index_ = index;
      failure_ = std::move(failure);
    }
  }

  RowSource& source_;
  std::mutex mutex_;
  bool finished_ = false;
  std::vector<RowBlock> blocks_;
  std::size_t failed_index_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr failure_;
};

}  // namespace

Dataset::Dataset(Schema schema, std::vector<RowBlock> blocks) : schema_(std::move(schema)) {
  for (auto const& block : blocks) {
    auto const rows = static_cast<std::size_t>(block.rows);
    require(block.keys.size() == rows * schema_.keys_per_row() &&
                block.continuous.size() == rows * schema_.continuous.size() &&
                block.labels.size() == rows * schema_.labels.size(),
            "dataset: a block of {} rows does not match the schema",
            rows);
    all_.rows += block.rows;
  }
  if (blocks.size() == 1) {
    all_ = std::move(blocks.front());
    return;
  }
  auto const rows = static_cast<std::size_t>(all_.rows);
  all_.keys.reserve(rows * schema_.keys_per_row());
  all_.continuous.reserve(rows * schema_.continuous.size());
  all_.labels.reserve(rows * schema_.labels.size());
  for (auto& block : blocks) {
    append(all_.keys, block.keys);
    append(all_.continuous, block.continuous);
    append(all_.labels, block.labels);
  }
}

std::size_t Dataset::checked(std::int64_t row) const {
  if (row < 0 || row >= all_.rows) {
    throw std::out_of_range(fmt::format("dataset: row {} of {}", row, all_.rows));
  }
  return static_cast<std::size_t>(row);
}

std::span<std::int64_t const> Dataset::keys(std::int64_t row) const {
  std::size_t const width = schema_.keys_per_row();
  return {all_.keys.data() + checked(row) * width, width};
}

std::span<float const> Dataset::continuous(std::int64_t row) const {
  std::size_t const width = schema_.continuous.size();
  return {all_.continuous.data() + checked(row) * width, width};
}

std::span<float const> Dataset::labels(std::int64_t row) const {
  std::size_t const width = schema_.labels.size();
  return {all_.labels.data() + checked(row) * width, width};
}

std::int64_t Dataset::distinct_keys(std::size_t field) const {
  require(field < schema_.categorical.size(), "dataset: there is no categorical field {}", field);
  auto const hotness = static_cast<std::size_t>(schema_.hotness);
  KeyCounter counter;
  for (std::int64_t row = 0; row < rows(); ++row) {
    for (auto const key : keys(row).subspan(field * hotness, hotness)) {
      counter.insert(key);
    }
  }
  return counter.count();
}

void Dataset::gather(std::span<std::int64_t const> rows,
                     BatchLayout const& layout,
                     StagedBatch& batch) const {
  require(rows.size() <= layout.capacity,
          "batch: {} rows do not fit in a capacity of {}",
          rows.size(),
          layout.capacity);
  std::size_t const capacity = layout.capacity;
  std::size_t const hotness = layout.hotness;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto const* row_keys = keys(rows[i]).data();
    for (std::size_t field = 0; field < layout.fields; ++field) {
      std::copy_n(
          row_keys + field * hotness, hotness, batch.keys + (field * capacity + i) * hotness);
    }
    std::ranges::copy(continuous(rows[i]), batch.continuous + i * layout.continuous);
    auto const row_labels = labels(rows[i]);
    for (std::size_t label = 0; label < layout.labels; ++label) {
      batch.labels[label * capacity + i] = row_labels[label];
    }
  }
  std::size_t const unused = capacity - rows.size();
  for (std::size_t field = 0; field < layout.fields; ++field) {
    std::fill_n(batch.keys + (field * capacity + rows.size()) * hotness, unused * hotness, 0);
  }
  std::fill_n(batch.continuous + rows.size() * layout.continuous, unused * layout.continuous, 0.0F);
  for (std::size_t label = 0; label < layout.labels; ++label) {
    std::fill_n(batch.labels + label * capacity + rows.size(), unused, 0.0F);
  }
  batch.rows = static_cast<std::int64_t>(rows.size());
}

Dataset load_dataset(RowSource& source, std::size_t threads) {
  if (threads == 0) {
    threads = std::max(1U, std::thread::hardware_concurrency());
  }
  ParallelLoad load(source);
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t i = 1; i < threads; ++i) {
        helpers.emplace_back([&load] { load.work(); });
      }
    } catch (std::system_error const&) {
      // If the system has no more threads, those already started and the calling thread do all the
      // work.
    }
    load.work();
  }
  return {source.schema(), load.take()};
}

}  // namespace msstream::datasets
