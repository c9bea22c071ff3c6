// SPDX-License-Identifier: Apache-2.0
#include "step/finite_searches.hpp"

#include "step/tape_state.hpp"

#include <msstream/base/format.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace msstream {
namespace detail {
namespace {

using Search = ops::kernels::NonFiniteSearch;
/// Later searches than this have one number together, and are not made.
constexpr std::size_t kMostSearches = std::size_t{1} << 20U;

[[nodiscard]] char const* text(FiniteSearches::Locator::Phase phase) {
  using Phase = FiniteSearches::Locator::Phase;
  return phase == Phase::forward    ? "forward"
         : phase == Phase::backward ? "backward"
         : phase == Phase::update   ? "update"
                                    : "input";
}

}  // namespace

FiniteSearches::FiniteSearches(std::shared_ptr<DeviceState> const& device,
                               std::source_location issued_at)
    : found_(device, Shape{Search::kWords}) {
  forget(issued_at);
}

void FiniteSearches::forget(std::source_location issued_at) {
  fill_any(found_.any(), 0xFF, issued_at);
}

std::uint64_t FiniteSearches::number_of(Locator::Finding finding) {
  auto key = fmt::format("{} {} {}:{}:{}",
                         text(finding.phase),
                         finding.operation,
                         finding.place.file_name(),
                         finding.place.line(),
                         finding.place.column());
  auto const occurrence = occurrences_[key]++;
  key += fmt::format(" {} {}", occurrence, finding.shape);
  auto const [entry, is_new] = numbers_.emplace(std::move(key), searches_.size());
  if (is_new) {
    searches_.push_back(std::move(finding));
  }
  return entry->second;
}

bool FiniteSearches::is_searched(AnyTensor const& values) const noexcept {
  return values.shape().count() > 0 && searches_.size() < kMostSearches;
}

void FiniteSearches::search_operation(std::string_view operation,
                                      AnyTensor const& result,
                                      std::vector<AnyTensor> const& inputs,
                                      std::source_location place) {
  if (!is_searched(result)) {
    return;
  }
  std::string const name(operation);
  std::vector<std::uint64_t> numbers;  // below that of the result
  for (auto const& input : inputs) {
    numbers.push_back(number_of({Locator::Phase::input, name, place, input.shape(), 0}));
  }
  auto const number = number_of({Locator::Phase::forward, name, place, result.shape(), 0});
  issue_search({.number = number}, result, {}, place);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    issue_search({.number = numbers[i], .result = number, .is_last_input = i + 1 == inputs.size()},
                 inputs[i],
                 {},
                 place);
  }
}

void FiniteSearches::search(Locator::Phase phase,
                            std::string_view operation,
                            AnyTensor const& values,
                            std::optional<TensorOf<std::int64_t>> const& row_count,
                            std::source_location place) {
  if (is_searched(values)) {
    auto const number = number_of({phase, std::string(operation), place, values.shape(), 0});
    issue_search({.number = number}, values, row_count, place);
  }
}

void FiniteSearches::issue_search(Search search,
                                  AnyTensor const& values,
                                  std::optional<TensorOf<std::int64_t>> const& row_count,
                                  std::source_location place) {
  search.values = values.data();
  search.dtype = values.dtype();
  search.count = values.shape().count();
  search.row_count = row_count ? row_count->data() : nullptr;
  search.width = row_count ? values.shape()[1] : 1;
  search.found = reinterpret_cast<unsigned long long*>(found_.data());
  Uses<AnyRuntime, AccessMode::read> read;
  read.add(values);
  if (row_count) {
    read.add(*row_count);
  }
  Uses<AnyRuntime, AccessMode::write> written;
  written.add(found_);
  issue(
      "find_non_finite",
      read,
      written,
      [search](auto stream) { ops::kernels::find_non_finite(stream, search); },
      {},
      place);
}

std::optional<FiniteSearches::Locator::Finding> FiniteSearches::first(
    std::source_location issued_at) const {
  auto const downloaded = download(found_.any(), issued_at);
  std::uint64_t word = 0;
  std::memcpy(&word, downloaded.data(), sizeof word);
  if (word == Search::kNothingFound) {
    return std::nullopt;
  }
  auto finding = searches_.at(word >> Search::kElementBits);
  finding.element =
      static_cast<std::int64_t>(word & ((std::uint64_t{1} << Search::kElementBits) - 1));
  return finding;
}

}  // namespace detail

using detail::AnyRuntime;

NonFiniteLocator<AnyRuntime>::NonFiniteLocator(GradientTape<AnyRuntime>& tape,
                                               std::source_location issued_at)
    : tape_(tape) {
  auto& state = tape_.state();
  if (state.searches != nullptr) {
    throw std::logic_error("NonFiniteLocator: the tape has one already");
  }
  state.searches = std::make_unique<detail::FiniteSearches>(state.device, issued_at);
}

NonFiniteLocator<AnyRuntime>::~NonFiniteLocator() {
  tape_.state().searches.reset();
}

std::optional<NonFiniteLocator<AnyRuntime>::Finding> NonFiniteLocator<AnyRuntime>::first(
    std::source_location issued_at) const {
  return tape_.state().searches->first(issued_at);
}

void NonFiniteLocator<AnyRuntime>::require_finite(std::source_location issued_at) const {
  auto const found = first(issued_at);
  if (found && found->phase == Phase::input) {
    throw std::runtime_error(fmt::format(
        "an input {} of \"{}\", called at {}:{}, had a NaN or an infinity before, and no recorded "
        "operation made it: element {} of data or of a parameter",
        found->shape,
        found->operation,
        found->place.file_name(),
        found->place.line(),
        found->element));
  }
  if (found) {
    throw std::runtime_error(
        fmt::format("{} of \"{}\", called at {}:{}, made a NaN or an infinity: element {} of {} {}",
                    detail::text(found->phase),
                    found->operation,
                    found->place.file_name(),
                    found->place.line(),
                    found->element,
                    found->phase == Phase::forward    ? "a result"
                    : found->phase == Phase::backward ? "a gradient"
                                                      : "a parameter",
                    found->shape));
  }
}

void NonFiniteLocator<AnyRuntime>::forget(std::source_location issued_at) {
  tape_.state().searches->forget(issued_at);
}

}  // namespace msstream
