// SPDX-License-Identifier: Apache-2.0
#include "team.hpp"

#include <algorithm>
#include <cstddef>

namespace benchmarks {

Team::Team(int threads)
    : spans_(static_cast<std::size_t>(threads)), start_(threads + 1), finish_(threads + 1) {
  for (int thread = 0; threads > 1 && thread < threads; ++thread) {
    threads_.emplace_back([this, thread] { live(thread); });
  }
}

Team::~Team() {
  if (!threads_.empty()) {
    work_ = nullptr;
    start_.arrive_and_wait();
  }
}

double Team::run(Work const& work) {
  work_ = &work;
  awake_ = 0;
  if (threads_.empty()) {
    measure(0);
  } else {
    start_.arrive_and_wait();
    finish_.arrive_and_wait();
  }
  auto begin = spans_.front().begin;
  auto end = spans_.front().end;
  for (auto const& span : spans_) {
    if (span.failure) {
      std::rethrow_exception(span.failure);
    }
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

void Team::live(int thread) {
  while (true) {
    start_.arrive_and_wait();
    if (work_ == nullptr) {
      return;
    }
    // Waking from the barrier takes longer than some batches, so no thread starts before all are
    // awake.
    ++awake_;
    while (awake_ < static_cast<int>(spans_.size())) {
      std::this_thread::yield();
    }
    measure(thread);
    finish_.arrive_and_wait();
  }
}

void Team::measure(int thread) {
  Span& span = spans_[static_cast<std::size_t>(thread)];
  span.failure = nullptr;
  span.begin = Clock::now();
  try {
    (*work_)(thread);
  } catch (...) {
    span.failure = std::current_exception();
  }
  span.end = Clock::now();
}

}  // namespace benchmarks
