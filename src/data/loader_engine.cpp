// SPDX-License-Identifier: Apache-2.0
#include "data/loader_engine.hpp"

#include "data/bad_row_log.hpp"
#include "data/batch_order.hpp"
#include "data/chunk_access.hpp"
#include "data/loader_settings.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/detail/start_thread.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace msstream::data::detail {

namespace {

/// Returns the schema of rows whose transforms have been applied.
std::shared_ptr<Schema const> result_of(std::shared_ptr<Schema const> const& raw,
                                        FittedTransforms const* transforms) {
  if (transforms != nullptr) {
    return std::make_shared<Schema const>(transforms->result_of(*raw));
  }
  for (auto const& column : raw->columns()) {
    require(column.transforms.empty(),
            "loader: column '{}' states transforms; expected the option transforms",
            column.name);
  }
  return raw;
}

/// Memory of the process, for batches that are not uploaded.
class HostMemory final : public BatchMemory {
 public:
  std::int64_t* ints(std::size_t count) override { return grown(ints_, count); }
  float* floats(std::size_t count) override { return grown(floats_, count); }

 private:
  template <class T>
  static T* grown(std::vector<T>& memory, std::size_t count) {
    if (memory.size() < count) {
      memory.resize(count);
    }
    return memory.data();
  }

  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
};

}  // namespace

LoaderEngine::LoaderEngine(std::shared_ptr<Reader> reader,
                           LoaderOptions const& options,
                           NewBatchMemory new_memory)
    : reader_(std::move(reader)),
      use_(*reader_, "a Loader"),
      transforms_(options.transforms ? options.transforms->fitted() : nullptr),
      raw_schema_(std::make_shared<Schema const>(reader_->schema())),
      schema_(result_of(raw_schema_, transforms_.get())),
      options_(checked_options(options)),
      new_memory_(std::move(new_memory)),
      settings_(settings_of(options_, *reader_, transforms_.get())),
      given_(settings_),
      windows_(settings_,
               {.epochs = options_.epochs,
                .last_batch = options_.last_batch,
                .ranks = options_.ranks,
                .shuffled = options_.shuffle_rows > 0,
                .deals_tasks = options_.share == RankShare::tasks,
                .group = group_of(options_, *schema_)}),
      shuffled_(options_.shuffle_rows > 0),
      dealt_(settings_.dealt) {
  options_.start ? reader_->seek(settings_.reader) : use_.begin();
  if (!new_memory_) {
    new_memory_ = [] { return std::make_unique<HostMemory>(); };
  }
  try {
    for (int i = 0; i < options_.threads; ++i) {
      workers_.push_back(msstream::detail::start_thread<std::jthread>("reading batches ahead",
                                                                      [this] { work(); }));
    }
  } catch (...) {  // the system has no more threads: stops the workers that run
    stop();
    throw;
  }
}

LoaderEngine::~LoaderEngine() {
  stop();
}

void LoaderEngine::stop() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

LoaderPosition LoaderEngine::position() const {
  std::lock_guard const lock(mutex_);
  return given_;
}

std::optional<Batch> LoaderEngine::next() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] {
    bool const made = !slots_.empty() && (slots_.front()->batch || slots_.front()->failure);
    return stopping_ || made || is_at_end();
  });
  if (stopping_) {
    return std::nullopt;
  }
  if (slots_.empty()) {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    return std::nullopt;
  }
  if (slots_.front()->failure) {
    std::rethrow_exception(slots_.front()->failure);
  }
  Batch batch(std::move(slots_.front()->batch));
  slots_.pop_front();
  given_ = batch.after();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

bool LoaderEngine::is_at_end() const {
  return slots_.empty() && windows_.ready_is_empty() && (failure_ || windows_.is_over());
}

void LoaderEngine::work() {
  Lock lock(mutex_);
  while (!stopping_) {
    try {
      if (!make_batch(lock) && !make_order(lock) && !read_chunk(lock)) {
        changed_.wait(lock);
      }
    } catch (...) {  // no memory for the loader's own lists
      if (!lock.owns_lock()) {
        lock.lock();
      }
      fail(std::current_exception());
      changed_.notify_all();
    }
  }
}

std::shared_ptr<StagedBatch> LoaderEngine::new_batch() {
  auto staged = std::make_unique<StagedBatch>();
  staged->schema = schema_;
  {
    std::lock_guard const lock(free_->mutex);
    if (!free_->memory.empty()) {
      staged->memory = std::move(free_->memory.back());
      free_->memory.pop_back();
    }
  }
  if (!staged->memory) {
    staged->memory = new_memory_();
  }
  return {staged.release(), [free = free_](StagedBatch* batch) {
            std::unique_ptr<StagedBatch> const owner(batch);
            std::lock_guard const lock(free->mutex);
            free->memory.push_back(std::move(batch->memory));
          }};
}

bool LoaderEngine::make_batch(Lock& lock) {
  bool const ahead = slots_.size() >= static_cast<std::size_t>(options_.batches_ahead);
  if (ahead || windows_.ready_is_empty()) {
    return false;
  }
  auto const window = windows_.ready().front();
  if (shuffled_ && window->order != ReadyWindow::Order::complete) {
    return false;
  }
  auto const number = window->next_batch++;
  if (window->next_batch == window->batches) {
    windows_.ready().pop_front();
  }
  auto const slot = slots_.emplace_back(std::make_shared<Slot>());
  lock.unlock();
  changed_.notify_all();  // the window may have made room for another
  try {
    auto const places = windows_.places_of(*window, number, options_.rank);
    auto batch = new_batch();
    bool const is_padded = options_.last_batch == LastBatch::padded;
    gather(window->rows,
           {.first = places.first,
            .count = places.count,
            .shape_rows = is_padded ? options_.batch_size : places.count,
            .padding_id = options_.padding_id,
            .is_padded = is_padded},
           *batch);
    batch->before = window->start;
    batch->before.batch += number;
    batch->before.batches += number;
    batch->first_sample = window->start.samples + places.first;
    batch->after = batch->before;
    ++batch->after.batch;
    ++batch->after.batches;
    if (number + 1 == window->batches) {
      batch->after = window->end;
    }
    lock.lock();
    slot->batch = std::move(batch);
  } catch (...) {
    if (!lock.owns_lock()) {
      lock.lock();
    }
    slot->failure = std::current_exception();
  }
  changed_.notify_all();
  return true;
}

bool LoaderEngine::make_order(Lock& lock) {
  if (!shuffled_) {
    return false;
  }
  auto& ready = windows_.ready();
  auto const found = std::ranges::find_if(
      ready, [](auto const& window) { return window->order == ReadyWindow::Order::missing; });
  if (found == ready.end()) {
    return false;
  }
  auto const window = *found;
  window->order = ReadyWindow::Order::in_progress;
  lock.unlock();
  std::exception_ptr failure;
  try {
    window->rows.order = shuffled_order(static_cast<std::uint32_t>(window->rows.rows),
                                        settings_.seed,
                                        static_cast<std::uint64_t>(window->start.epoch),
                                        static_cast<std::uint64_t>(window->start.window));
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure) {
    fail(failure);
    ready.clear();
  }
  window->order = ReadyWindow::Order::complete;
  changed_.notify_all();
  return true;
}

bool LoaderEngine::may_read() const {
  if (reading_ || failure_ || at_end_of_epoch_ || windows_.is_over() || windows_.has_all_rows()) {
    return false;
  }
  // Reads so far ahead that another window is complete when the one in use ends, and that there are
  // rows for the batches that are to be made ahead.
  auto const unread = static_cast<std::int64_t>(pending_.size());
  if (unread > 2 * options_.threads) {
    return false;
  }
  auto const known = windows_.rows_ahead() + unread * rows_per_chunk_;
  auto const batches = static_cast<std::int64_t>(options_.batches_ahead) * settings_.batch_size;
  constexpr std::int64_t most = std::int64_t{1} << 60U;
  auto const wanted = std::max(2 * std::min(settings_.window_rows, most),
                               batches + options_.threads * rows_per_chunk_);
  return known < wanted || windows_.ready_is_empty();
}

Reader::Task LoaderEngine::next_task(PendingChunk& entry) {
  if (options_.share != RankShare::tasks) {
    return reader_->next_task();
  }
  auto counted = reader_->next_counted_task();
  if (!counted) {
    entry.dealt = dealt_;
    return {};
  }
  dealt_.resize(static_cast<std::size_t>(options_.ranks), 0);
  auto const fewest = std::ranges::min_element(dealt_);
  entry.is_of_other = fewest - dealt_.begin() != options_.rank;
  if (!entry.is_of_other) {
    entry.dealt = dealt_;
  }
  *fewest += counted->rows;
  if (entry.is_of_other) {
    return {};
  }
  return [counted = std::move(*counted)](Chunk& chunk) {
    counted.task(chunk);
    ChunkAccess::check(chunk);
    require(chunk.rows() == counted.rows,
            "loader: a task of the reader appended {} rows; its next_counted_task() said {}",
            chunk.rows(),
            counted.rows);
  };
}

bool LoaderEngine::read_chunk(Lock& lock) {
  if (windows_.has_all_rows() && windows_.ready().size() < 2 && !windows_.is_over() && !failure_) {
    windows_.repeat();
    changed_.notify_all();
    return true;
  }
  if (!may_read()) {
    return false;
  }
  reading_ = true;
  auto const entry = std::make_shared<PendingChunk>();
  pending_.push_back(entry);
  lock.unlock();
  Reader::Task task;
  Reader::Position rows_begin;
  bool ended = false;
  try {
    entry->begin = reader_->position();
    task = next_task(*entry);
    rows_begin = place_of_rows(entry->begin, reader_->position());
    ended = !task && !entry->is_of_other;
  } catch (...) {
    entry->failure = std::current_exception();
  }
  lock.lock();
  reading_ = false;
  at_end_of_epoch_ = ended || entry->failure;
  lock.unlock();
  changed_.notify_all();
  if (task) {
    try {
      entry->chunk = std::make_shared<Chunk>(raw_schema_);
      with_places(*reader_, rows_begin, [&] {
        task(*entry->chunk);
        ChunkAccess::check(*entry->chunk);
        if (transforms_) {
          transforms_->apply(*entry->chunk, schema_);
        }
      });
    } catch (...) {
      entry->failure = std::current_exception();
    }
  }
  lock.lock();
  entry->complete = true;
  join_chunks();
  changed_.notify_all();
  return true;
}

void LoaderEngine::join_chunks() {
  while (!pending_.empty() && pending_.front()->complete && !failure_) {
    auto const entry = pending_.front();
    pending_.pop_front();
    try {
      if (entry->failure) {
        std::rethrow_exception(entry->failure);
      }
      if (entry->chunk) {
        BadRowLog::add_from(*entry->chunk);
        rows_per_chunk_ = std::max<std::int64_t>(1, entry->chunk->rows());
        add_rows(*entry);
        continue;
      }
      if (entry->is_of_other) {
        continue;
      }
      end_epoch(entry->dealt);
      if (!windows_.is_over() && !windows_.has_all_rows()) {
        reader_->seek({});
        dealt_.clear();
        at_end_of_epoch_ = false;
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }
}

void LoaderEngine::add_rows(PendingChunk const& entry) {
  try {
    windows_.add(entry.chunk, entry.begin, entry.dealt);
  } catch (DataError const& error) {
    throw DataError(fmt::format("{}: {}", reader_->file_name(entry.begin.file), error.what()));
  }
}

void LoaderEngine::end_epoch(std::vector<std::int64_t> const& dealt) {
  try {
    windows_.end_epoch(dealt);
  } catch (DataError const& error) {
    throw DataError(fmt::format("{}: {}", reader_->file_name(0), error.what()));
  }
}

void LoaderEngine::fail(std::exception_ptr failure) {
  failure_ = std::move(failure);
  pending_.clear();
}

}  // namespace msstream::data::detail
