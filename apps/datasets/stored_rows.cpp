// SPDX-License-Identifier: Apache-2.0
#include "datasets/stored_rows.hpp"

#include "datasets/held_out_rows.hpp"
#include "datasets/split.hpp"

#include <msstream/base/detail/require.hpp>

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

using data::Chunk;

/// Reads stored chunks in their order. A position is the number of a chunk.
class StoredReader : public data::Reader {
 public:
  explicit StoredReader(data::Schema schema) : schema_(std::move(schema)) {}

  [[nodiscard]] data::Schema const& schema() const override { return schema_; }
  [[nodiscard]] Position position() const override {
    return {.offset = static_cast<std::int64_t>(number_)};
  }

 protected:
  data::Schema schema_;
  std::size_t number_ = 0;
};

class CopyingReader final : public StoredReader {
 public:
  explicit CopyingReader(StoredRows const& rows)
      : StoredReader(rows.schema()), chunks_(rows.chunks()) {}

  bool next(Chunk& chunk) override {
    if (number_ == chunks_.size()) {
      return false;
    }
    chunk = chunks_[number_++];
    return true;
  }
  void seek(Position const& position) override {
    number_ = static_cast<std::size_t>(position.offset);
  }

 private:
  std::vector<Chunk> const& chunks_;
};

class GivingReader final : public StoredReader {
 public:
  GivingReader(data::Schema schema, std::vector<Chunk> chunks)
      : StoredReader(std::move(schema)), chunks_(std::move(chunks)) {}

  bool next(Chunk& chunk) override {
    if (number_ == chunks_.size()) {
      return false;
    }
    chunk = std::move(chunks_[number_++]);
    return true;
  }
  void seek(Position const& position) override {
    if (position != this->position()) {
      throw std::logic_error("rows that have been given away cannot be read again");
    }
  }

 private:
  std::vector<Chunk> chunks_;
};

/// Collects the chunks of a reader in their order. Each thread takes the next task when it has
/// finished one. Tasks are taken one at a time, so all tasks before a failing one have been taken,
/// too.
class ParallelLoad {
 public:
  explicit ParallelLoad(data::Reader& reader) : reader_(reader) {}

  void work() {
    while (true) {
      std::size_t index = 0;
      data::Reader::Task task;
      {
        std::lock_guard const lock(mutex_);
        if (finished_) {
          return;
        }
        index = chunks_.size();
        try {
          task = reader_.next_task();
          if (task) {
            chunks_.emplace_back(reader_.schema());
          }
        } catch (...) {
          fail(index, std::current_exception());
          task = {};
        }
        if (!task) {
          finished_ = true;
          return;
        }
      }
      try {
        Chunk chunk(reader_.schema());
        task(chunk);
        chunk.check();
        std::lock_guard const lock(mutex_);
        chunks_[index] = std::move(chunk);
      } catch (...) {
        std::lock_guard const lock(mutex_);
        fail(index, std::current_exception());
        finished_ = true;
      }
    }
  }

  [[nodiscard]] std::vector<Chunk> take() {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return std::move(chunks_);
  }

 private:
  void fail(std::size_t index, std::exception_ptr failure) noexcept {
    if (index < failed_index_) {
      failed_index_ = index;
      failure_ = std::move(failure);
    }
  }

  data::Reader& reader_;
  std::mutex mutex_;
  bool finished_ = false;
  std::vector<Chunk> chunks_;
  std::size_t failed_index_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr failure_;
};

}  // namespace

StoredRows::StoredRows(data::Schema schema, std::vector<Chunk> chunks)
    : schema_(std::move(schema)) {
  for (auto& chunk : chunks) {
    add(std::move(chunk));
  }
}

void StoredRows::add(Chunk chunk) {
  require(chunk.schema() == schema_, "stored rows: a chunk has other columns");
  rows_ += chunk.rows();
  chunks_.push_back(std::move(chunk));
}

std::unique_ptr<data::Reader> StoredRows::reader() const {
  return std::make_unique<CopyingReader>(*this);
}

std::unique_ptr<data::Reader> StoredRows::take() {
  rows_ = 0;
  return std::make_unique<GivingReader>(schema_, std::exchange(chunks_, {}));
}

StoredRows load_rows(data::Reader& reader, std::size_t threads) {
  if (threads == 0) {
    threads = std::max(1U, std::thread::hardware_concurrency());
  }
  ParallelLoad load(reader);
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
  return {reader.schema(), load.take()};
}

DividedRows divide(StoredRows rows, std::int64_t holdout) {
  check_holdout(holdout);
  DividedRows divided{StoredRows(rows.schema()), StoredRows(rows.schema())};
  auto const source = rows.take();
  std::int64_t first_row = 0;
  for (Chunk chunk(rows.schema()); source->next(chunk);) {
    auto const count = chunk.rows();
    if (holdout > 0) {
      divided.held_out.add(take_held_out(chunk, first_row, holdout));
    }
    divided.training.add(std::move(chunk));
    first_row += count;
  }
  return divided;
}

}  // namespace msstream::datasets
