// SPDX-License-Identifier: Apache-2.0
#include "datasets/batch_loader.hpp"

#include "datasets/batch_order.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/detail/start_thread.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

namespace msstream::datasets {

namespace {

BatchPlan checked(BatchPlan plan) {
  require(!plan.rows.empty(), "batches: there are no rows");
  require(plan.batch_size >= 1, "batches: expected at least 1 row, found {}", plan.batch_size);
  require(plan.batches_per_epoch() >= 1,
          "batches: whole ones of {} rows; expected at most the {} that there are",
          plan.batch_size,
          plan.rows.size());
  require(plan.epochs >= 0, "batches: expected at least 0 epochs, found {}", plan.epochs);
  return plan;
}

}  // namespace

BatchLoader::BatchLoader(Dataset const& dataset,
                         BatchPlan plan,
                         std::vector<StagedBatch*> const& buffers,
                         Options options)
    : dataset_(dataset),
      plan_(checked(std::move(plan))),
      layout_(dataset.schema(), static_cast<std::size_t>(plan_.batch_size)),
      recycled_elsewhere_(options.recycled_elsewhere),
      free_(buffers),
      slots_(buffers.size()),
      next_to_fill_(options.first_batch),
      next_to_give_(options.first_batch) {
  require(!buffers.empty(), "batches: there are no staging buffers");
  require(options.threads >= 1, "batches: there are no threads");
  require(options.first_batch >= 0 && options.first_batch <= plan_.batch_count(),
          "batches: expected a first batch from 0 to {}, found {}",
          plan_.batch_count(),
          options.first_batch);
  try {
    for (std::size_t i = 0; i < options.threads; ++i) {
      workers_.push_back(
          detail::start_thread<std::jthread>("reading batches ahead", [this] { work(); }));
    }
  } catch (...) {  // the system has no more threads: stops the workers that run
    stop();
    throw;
  }
}

BatchLoader::~BatchLoader() {
  stop();
}

StagedBatch* BatchLoader::next() {
  std::unique_lock lock(mutex_);
  if (stopping_ || next_to_give_ == plan_.batch_count()) {
    return nullptr;
  }
  if (held_ == slots_.size() && !recycled_elsewhere_) {
    throw std::logic_error(
        fmt::format("batches: all {} staging buffers are held; recycle one before next()", held_));
  }
  changed_.wait(lock, [this] {
    return stopping_ || slot_of(next_to_give_).batch != nullptr || slot_of(next_to_give_).failure;
  });
  if (stopping_) {
    return nullptr;
  }
  if (slot_of(next_to_give_).failure) {
    std::rethrow_exception(slot_of(next_to_give_).failure);
  }
  ++held_;
  return std::exchange(slot_of(next_to_give_++).batch, nullptr);
}

void BatchLoader::recycle(StagedBatch* batch) {
  {
    std::lock_guard const lock(mutex_);
    require(batch != nullptr && held_ > 0 && std::ranges::count(free_, batch) == 0,
            "batches: a recycled batch must come from next(), once");
    --held_;
    free_.push_back(batch);
  }
  changed_.notify_all();
}

void BatchLoader::fill(std::int64_t index, StagedBatch& batch) {
  if (index < 0 || index >= plan_.batch_count()) {
    throw std::out_of_range(fmt::format("batches: batch {} of {}", index, plan_.batch_count()));
  }
  auto const order = order_of(index / plan_.batches_per_epoch());
  auto const first = static_cast<std::size_t>(index % plan_.batches_per_epoch()) * layout_.capacity;
  std::size_t const count = std::min(layout_.capacity, order->size() - first);
  dataset_.gather(std::span(*order).subspan(first, count), layout_, batch);
  batch.index = index;
}

void BatchLoader::stop() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void BatchLoader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || next_to_fill_ == plan_.batch_count() || !free_.empty();
    });
    if (stopping_ || next_to_fill_ == plan_.batch_count()) {
      return;
    }
    auto* const batch = free_.back();
    free_.pop_back();
    auto const index = next_to_fill_++;
    lock.unlock();
    std::exception_ptr failure;
    try {
      fill(index, *batch);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    slot_of(index) = {failure ? nullptr : batch, failure};
    changed_.notify_all();
    if (failure) {
      next_to_fill_ = plan_.batch_count();  // batches after the failed one are not needed
    }
  }
}

BatchLoader::Order BatchLoader::order_of(std::int64_t epoch) {
  std::lock_guard const lock(order_mutex_);
  auto& cached = orders_[epoch % 2];
  if (cached.epoch != epoch) {
    if (plan_.shuffle) {
      cached.rows = std::make_shared<std::vector<std::int64_t> const>(
          shuffled(plan_.rows, plan_.seed, static_cast<std::uint64_t>(epoch)));
    } else if (!cached.rows) {
      cached.rows = Order(Order(), &plan_.rows);  // refers to the plan's rows without owning them
    }
    cached.epoch = epoch;
  }
  return cached.rows;
}

BatchLoader::Slot& BatchLoader::slot_of(std::int64_t index) {
  return slots_[static_cast<std::size_t>(index) % slots_.size()];
}

}  // namespace msstream::datasets
