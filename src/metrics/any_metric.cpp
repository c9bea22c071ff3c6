// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/device/open_capture.hpp"
#include "metrics/metric_merge.hpp"
#include "metrics/metric_state.hpp"
#include "metrics/saved_kind.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/metrics/detail/any_metric.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics::detail {
namespace {

/// A metric, and the batch that an update adds to it.
struct Addition {
  MetricState const* state;
  AnyBatch const* batch;
};

void require_distinct(std::vector<Addition> const& additions) {
  std::vector<MetricState const*> states;
  for (auto const& addition : additions) {
    states.push_back(addition.state);
  }
  std::ranges::sort(states);
  auto const twice = std::ranges::adjacent_find(states);
  require(twice == states.end(),
          "update: metric '{}' occurs twice; expected each metric once in an update",
          twice == states.end() ? std::string() : (*twice)->name());
}

/// Returns whether the host knows how many examples an update adds: all rows, once.
[[nodiscard]] bool is_known(MetricState const& state, AnyBatch const& batch) {
  return !batch.count &&
         msstream::detail::OpenCapture::current(*state.device()->context) == nullptr;
}

/// Adds batches to at most kMostUpdates metrics, in one launch.
void issue_update(std::span<Addition const> additions, std::source_location issued_at) {
  kernels::MetricUpdates updates{};
  Reads read;
  Writes written;
  AnyBatch const* last = nullptr;
  for (auto const& [state, batch] : additions) {
    updates.at[updates.count++] = state->update_of(*batch);
    if (batch != last) {
      read.add(batch->scores);
      if (batch->labels) {
        read.add(*batch->labels);
      }
      if (batch->weights) {
        read.add(*batch->weights);
      }
      if (batch->count) {
        read.add(*batch->count);
      }
      last = batch;
    }
    state->add_reads(*batch, read);
    state->add_writes(written);
  }
  issue(
      "update_metrics",
      read,
      written,
      [updates](auto stream) { kernels::update_metrics(stream, updates); },
      {},
      issued_at);
}

}  // namespace

std::string const& AnyMetric::name() const noexcept {
  return state_->name();
}

std::optional<double> AnyMetric::value(std::source_location issued_at) const {
  return state_->value(issued_at);
}

void AnyMetric::reset(std::source_location issued_at) const {
  state_->reset(issued_at);
  state_->note_reset();
}

void AnyMetric::merge(AnyMetric const& other, std::source_location issued_at) const {
  state_->merge(*other.state_, issued_at);
}

std::vector<StateTensor> AnyMetric::tensors() const {
  std::vector<StateTensor> all;
  state_->add_tensors(all);
  return all;
}

std::shared_ptr<msstream::detail::HostState> AnyMetric::saved_kind() const {
  return std::make_shared<SavedKind>(state_->name_of("kind"), state_->kind());
}

msstream::detail::SourceCheck AnyMetric::check_of_list() const {
  return [state = state_](char const*, bool saves) {
    if (!saves) {
      state->note_load();
    }
  };
}

void update_metrics(std::vector<AnyUpdate> const& updates, std::source_location issued_at) {
  std::vector<Addition> additions;
  for (auto const& update : updates) {
    for (auto const& metric : update.metrics) {
      additions.push_back({&metric.state(), &update.batch});
      // Checks the batch before anything is issued.
      static_cast<void>(metric.state().update_of(update.batch));
    }
  }
  require_distinct(additions);
  for (auto const& [state, batch] : additions) {
    if (is_known(*state, *batch)) {
      state->require_room(batch->scores.count());
    }
  }
  std::span<Addition const> rest(additions);
  while (!rest.empty()) {
    auto const count = std::min<std::size_t>(rest.size(), kernels::kMostUpdates);
    issue_update(rest.first(count), issued_at);
    for (auto const& [state, batch] : rest.first(count)) {
      if (is_known(*state, *batch)) {
        state->note_examples(batch->scores.count());
      }
    }
    rest = rest.subspan(count);
  }
}

MetricValues values_of(std::vector<AnyMetric> const& metrics, std::source_location issued_at) {
  MetricValues all;
  std::string known;
  std::string faults;
  bool is_full = false;
  for (auto const& metric : metrics) {
    auto const note_fault = [&](std::exception const& fault, bool full) {
      is_full = faults.empty() ? full : is_full;
      faults += (faults.empty() ? "" : "; ") + std::string(fault.what());
    };
    try {
      all.emplace_back(metric.name(), metric.value(issued_at));
      known += fmt::format("{}{} {}",
                           known.empty() ? "; the other metrics: " : ", ",
                           metric.name(),
                           all.back().second ? fmt::format("{}", *all.back().second) : "empty");
    } catch (std::invalid_argument const& fault) {
      note_fault(fault, false);
    } catch (std::length_error const& fault) {
      note_fault(fault, true);
    }
  }
  if (is_full) {
    throw std::length_error(faults + known);
  }
  require(faults.empty(), "{}{}", faults, known);
  return all;
}

void require_names(std::vector<AnyMetric> const& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(metrics[i].name() != metrics[j].name(),
              "MetricSet: two metrics have the name '{}'; expected different names",
              metrics[i].name());
    }
  }
}

MetricState::MetricState(std::shared_ptr<DeviceState> const& device,
                         std::string name,
                         std::int64_t words,
                         std::source_location issued_at)
    : name_(std::move(name)), words_(device, Shape{kTallyElements + words}) {
  require(!name_.empty(), "metric: the name is empty; expected a name");
  reset(issued_at);
}

void MetricState::reset(std::source_location issued_at) const {
  msstream::detail::fill_any(words_.any(), 0, issued_at);
}

void MetricState::merge(MetricState const& other, std::source_location issued_at) const {
  require(&other != this, "{}: merged with itself; expected another metric", name_);
  auto const own = sum();
  auto const others = other.sum();
  require(
      own.of == others.of,
      "{}: the sum of {}, merged with {}, the sum of {}; expected metrics of one kind with equal "
      "options",
      name_,
      own.of,
      other.name_,
      others.of);
  require(other.device() == device(), "{}: {} is on another device", name_, other.name_);
  kernels::MetricMerge const merge{reinterpret_cast<kernels::Tally*>(words_.data()),
                                   reinterpret_cast<kernels::Tally const*>(other.words_.data()),
                                   own.tally_words,
                                   own.words.value_or(words_.count() - kTallyElements)};
  Reads read;
  read.add(other.words_);
  Writes written;
  written.add(words_);
  issue(
      "merge_metrics",
      read,
      written,
      [merge](auto stream) { kernels::merge_metrics(stream, merge); },
      {},
      issued_at);
}

std::string MetricState::name_of(char const* tensor) const {
  return fmt::format("metrics/{}/{}", name_, tensor);
}

void MetricState::add_tensors(std::vector<StateTensor>& to) const {
  to.push_back({name_of("state"), words_.any()});
}

std::uint64_t* MetricState::words() const noexcept {
  return reinterpret_cast<std::uint64_t*>(words_.data()) + kTallyElements;
}

std::int64_t MetricState::rows_of(AnyBatch const& batch) const {
  auto const rows = batch.scores.count();
  require(batch.labels.has_value(), "{}: a batch without labels; expected Batch::labels", name_);
  require(batch.labels->count() == rows,
          "{}: {} scores, but {} labels",
          name_,
          rows,
          batch.labels->count());
  require(batch.labels->device() == device(),
          "{}: the labels are on another device than the metric",
          name_);
  return rows;
}

kernels::MetricUpdate MetricState::update_of(AnyBatch const& batch) const {
  auto const rows = rows_of(batch);
  auto const require_count = [&](char const* what, std::int64_t count) {
    require(count == rows, "{}: {} examples, but {} {}", name_, rows, count, what);
  };
  auto const require_device = [&](char const* what, std::shared_ptr<DeviceState> const& of_batch) {
    require(of_batch == device(), "{}: the {} are on another device than the metric", name_, what);
  };
  require_device("scores", batch.scores.device());
  if (batch.weights) {
    require_count("weights", batch.weights->count());
    require_device("weights", batch.weights->device());
  }
  require(!batch.count || batch.count->count() == 1,
          "{}: a count of shape {}; expected a scalar",
          name_,
          batch.count ? batch.count->shape() : Shape{});
  if (batch.users) {
    require_count("users", batch.users->count());
    require_device("users", batch.users->device());
  }
  kernels::MetricUpdate update{};
  update.rows = rows;
  update.count = batch.count ? batch.count->data() : nullptr;
  update.scores = batch.scores.data();
  update.labels = batch.labels ? batch.labels->data() : nullptr;
  update.weights = batch.weights ? batch.weights->data() : nullptr;
  update.tally = reinterpret_cast<kernels::Tally*>(words_.data());
  complete(update, batch);
  return update;
}

void MetricState::require_weights(bool weighted, AnyBatch const& batch) const {
  require(batch.weights.has_value() == weighted,
          "{}: a batch {} weights; expected a batch {}, as Options::weighted is {}",
          name_,
          weighted ? "without" : "with",
          weighted ? "with weights" : "without",
          weighted);
}

void MetricState::require_exact(kernels::Tally const& tally, unsigned bits) const {
  auto const examples = tally.at[kernels::Tally::examples];
  if (examples > std::uint64_t{1} << bits) {
    throw std::length_error(fmt::format(
        "{}: {} examples since the last reset(); expected at most 2^{}, whose sums are exact",
        name_,
        examples,
        bits));
  }
}

MetricState::Read MetricState::read(std::source_location issued_at, Faults const& faults) const {
  auto const staged = msstream::detail::download(words_.any(), issued_at);
  Read found;
  std::memcpy(&found.tally, staged.data(), sizeof(found.tally));
  auto const* const words = static_cast<std::uint64_t const*>(staged.data());
  found.words.assign(words + kTallyElements, words + words_.count());
  auto const require_none = [&](kernels::Tally::Word word, char const* fault) {
    auto const bad = found.tally.at[word];
    require(bad == 0, "{}: {} {}", name_, bad, fault);
  };
  require_none(kernels::Tally::bad_scores, faults.scores);
  require_none(kernels::Tally::bad_labels, faults.labels);
  require_none(kernels::Tally::bad_weights, faults.weights);
  return found;
}

}  // namespace msstream::metrics::detail
