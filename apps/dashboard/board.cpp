// SPDX-License-Identifier: Apache-2.0
#include "dashboard/board.hpp"

namespace msstream::dashboard {

namespace {

constexpr std::size_t kMaxFreshMetrics = 4096;

}  // namespace

void Board::note_steps_before(std::int64_t steps) {
  std::lock_guard const guard(fresh_mutex_);
  steps_noted_ = steps;
  fresh_.steps_before = steps;
}

void Board::note_part(std::string name) {
  std::lock_guard const guard(fresh_mutex_);
  fresh_.part = std::move(name);
  last_step_at_.reset();
}

void Board::note_pause(int steps) {
  std::lock_guard const guard(fresh_mutex_);
  untimed_steps_ = steps;
}

void Board::note_step(float loss, std::int64_t rows, Time now) {
  std::lock_guard const guard(fresh_mutex_);
  bool const is_timed = last_step_at_ && untimed_steps_ == 0;
  float const ms =
      is_timed ? std::chrono::duration<float, std::milli>(now - *last_step_at_).count() : -1.F;
  last_step_at_ = now;
  fresh_.step_at = now;
  untimed_steps_ -= untimed_steps_ > 0 ? 1 : 0;
  ++steps_noted_;
  if (fresh_.steps.size() < kMaxFresh) {
    fresh_.steps.push_back({loss, ms, rows});
  } else {
    ++fresh_.left_out;
  }
}

void Board::note_metric(std::string name, double value) {
  std::lock_guard const guard(fresh_mutex_);
  if (fresh_.metrics.size() < kMaxFreshMetrics) {
    fresh_.metrics.push_back({steps_noted_, std::move(name), value});
  }
}

void Board::note_memory(MemoryStatistics const& statistics, std::vector<StreamMemory> by_stream) {
  std::lock_guard const guard(fresh_mutex_);
  fresh_.memory = Memory{steps_noted_, statistics, std::move(by_stream)};
}

void Board::note_timeline(std::int64_t step, trace::Timeline timeline, Time now) {
  RecordedStep recorded(step, std::move(timeline), now);
  std::lock_guard const guard(fresh_mutex_);
  fresh_.timeline = std::move(recorded);
}

void Board::note_end(End end) {
  {
    std::lock_guard const guard(fresh_mutex_);
    fresh_.end = std::move(end);
  }
  has_end_.store(true);
}

void Board::note_end_is_seen() {
  {
    std::lock_guard const guard(seen_mutex_);
    end_is_seen_ = true;
  }
  seen_.notify_all();
}

bool Board::wait_until_end_is_seen(std::chrono::milliseconds most, Time now) {
  std::unique_lock lock(seen_mutex_);
  if (is_watched(now)) {
    seen_.wait_for(lock, most, [this] { return end_is_seen_; });
  }
  return end_is_seen_;
}

bool Board::is_watched(Time now) const noexcept {
  auto const seen = reader_seen_.load(std::memory_order_relaxed);
  return seen != 0 && now.time_since_epoch().count() - seen <
                          std::chrono::nanoseconds(std::chrono::seconds(5)).count();
}

void Board::fold() {
  std::lock_guard const guard(folded_mutex_);
  fold_locked();
}

Board::Text Board::state(Time now) {
  return text(state_, &Curves::state_json, now);
}

std::string Board::timeline_json(Time now) {
  return text(timeline_, &Curves::timeline_json, now).json;
}

Board::Text Board::text(Made& made, std::string (Curves::*make)(Time) const, Time now) {
  reader_seen_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  std::lock_guard const guard(folded_mutex_);
  if (!made.at || now - *made.at >= kJsonAge || made.text.has_end != has_end_.load()) {
    fold_locked();
    made.text = {(curves_.*make)(now), curves_.has_end()};
    made.at = now;
  }
  return made.text;
}

void Board::fold_locked() {
  {
    std::lock_guard const guard(fresh_mutex_);
    std::swap(fresh_, folding_);
  }
  auto& fresh = folding_;
  // Empties the list also if memory is short midway, so that no step is added twice.
  struct Emptied {
    Emptied(Fresh& list, Curves& to) : fresh(list), curves(to) {}
    Emptied(Emptied const&) = delete;
    Emptied& operator=(Emptied const&) = delete;
    ~Emptied() {
      curves.leave_out_steps(static_cast<std::int64_t>(fresh.steps.size() - added) +
                             fresh.left_out);
      // Keeps the storage of the list of steps, so that a training rarely allocates.
      auto steps = std::move(fresh.steps);
      steps.clear();
      fresh = Fresh{.steps = std::move(steps)};
    }
    Fresh& fresh;
    Curves& curves;
    std::size_t added = 0;
  } emptied(fresh, curves_);
  if (fresh.end) {  // first, so that it is kept if memory is short
    curves_.set_end(std::move(*fresh.end));
  }
  if (fresh.steps_before) {
    curves_.set_steps_before(*fresh.steps_before);
  }
  if (fresh.part) {
    curves_.set_part(std::move(*fresh.part));
  }
  for (auto const& step : fresh.steps) {
    ++emptied.added;  // add_step() counts the step, whatever it throws then
    curves_.add_step(step.loss, step.ms, step.rows);
  }
  if (fresh.step_at) {
    curves_.set_step_at(*fresh.step_at);
  }
  for (auto const& [step, name, value] : fresh.metrics) {
    curves_.add_metric(step, name, value);
  }
  if (fresh.memory) {
    curves_.set_memory(fresh.memory->step, fresh.memory->statistics, fresh.memory->by_stream);
  }
  if (fresh.timeline) {
    curves_.set_timeline(std::move(*fresh.timeline));
  }
}

}  // namespace msstream::dashboard
