// SPDX-License-Identifier: Apache-2.0
#include "data/ordered_rows.hpp"

#include "data/bad_row_log.hpp"
#include "data/chunk_access.hpp"
#include "data/keep_rows.hpp"
#include "data/row_error.hpp"

#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace msstream::data::detail {

void OrderedRows::read(int threads) {
  std::vector<std::jthread> helpers;
  try {
    for (int i = 1; i < threads; ++i) {
      helpers.emplace_back([this] { work(); });
    }
  } catch (std::system_error const&) {
    // The system has no more threads: those that run and the calling one do all the work.
  }
  work();
}

void OrderedRows::rethrow() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

void OrderedRows::work() {
  while (true) {
    std::int64_t number = 0;
    Reader::Position begin;
    Reader::Task task;
    std::exception_ptr failure;
    {
      std::lock_guard const lock(reading_);
      if (std::lock_guard const state(mutex_); over_) {
        return;
      }
      number = chunks_++;
      try {
        begin = reader_.position();
        task = reader_.next_task();
        begin = place_of_rows(begin, reader_.position());
      } catch (...) {
        failure = std::current_exception();
      }
      if (!task) {
        std::lock_guard const state(mutex_);
        over_ = true;
      }
    }
    std::optional<Chunk> chunk;
    try {
      chunk.emplace(schema_);
      ChunkAccess::keep_words(*chunk, words_);
      if (task) {
        with_places(reader_, begin, [&] {
          task(*chunk);
          ChunkAccess::check(*chunk);
        });
      }
    } catch (...) {
      failure = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == number; });
    try {
      if (is_complete()) {  // what is behind the rows does not matter
        failure = nullptr;
      } else if (!failure && !failure_) {
        BadRowLog::add_from(*chunk);
        if (max_rows_ > 0 && chunk->rows() > max_rows_ - rows_) {
          keep_rows(*chunk, [&](std::int64_t row) { return row < max_rows_ - rows_; });
        }
        rows_ += chunk->rows();
        with_places(reader_, begin, [&] { add_(*chunk); });
        over_ = over_ || is_complete();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure && !failure_) {
      failure_ = failure;
      over_ = true;
    }
    ++turn_;
    changed_.notify_all();
  }
}

}  // namespace msstream::data::detail
