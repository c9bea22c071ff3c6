// SPDX-License-Identifier: Apache-2.0
#include "step/finite_searches.hpp"

#include "step/tape_state.hpp"

#include <msstream/base/format.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace msstream {
namespace detail {
namespace {

using Search = ops::kernels::NonFiniteSearch;
/// A search has the number `index of the operation * kSearchesOfOne + i`, with i = kResult for the
/// result and otherwise the index of the input. Inputs from the 255th on share a number.
constexpr std::size_t kSearchesOfOne = 256;
constexpr std::size_t kResult = kSearchesOfOne - 1;
constexpr std::size_t kMostOperations = Search::kNoResult / kSearchesOfOne;

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

std::size_t FiniteSearches::index_of(Locator::Finding finding) {
  auto key = fmt::format("{} {} {}:{}:{}",
                         text(finding.phase),
                         finding.operation,
                         finding.place.file_name(),
                         finding.place.line(),
                         finding.place.column());
  auto const occurrence = occurrences_[key]++;
  key += fmt::format(" {}", occurrence);
  auto const found = indices_.find(key);
  if (found != indices_.end()) {
    searched_[found->second].result.shape = finding.shape;
    return found->second;
  }
  if (searched_.size() == kMostOperations) {
    throw std::length_error(
        fmt::format("NonFiniteLocator: \"{}\", called at {}:{}, is the {}th operation of a step; "
                    "expected fewer, and GradientTape::clear() once a step",
                    finding.operation,
                    finding.place.file_name(),
                    finding.place.line(),
                    kMostOperations + 1));
  }
  searched_.push_back({std::move(finding), {}});
  indices_.emplace(std::move(key), searched_.size() - 1);
  return searched_.size() - 1;
}

void FiniteSearches::search_operation(std::string_view operation,
                                      AnyTensor const& result,
                                      std::vector<AnyTensor> const& inputs,
                                      std::source_location place) {
  if (result.shape().count() == 0) {
    return;
  }
  auto const index =
      index_of({Locator::Phase::forward, std::string(operation), place, result.shape(), 0});
  auto const first = index * kSearchesOfOne;
  auto const number = first + kResult;
  issue_search({.number = number}, result, {}, place);
  auto& shapes = searched_[index].inputs;
  shapes.clear();
  for (auto const& input : inputs) {
    auto const i = std::min(shapes.size(), kResult - 1);
    shapes.resize(i);
    shapes.push_back(input.shape());
    issue_search({.number = first + i, .result = number, .is_last_input = &input == &inputs.back()},
                 input,
                 {},
                 place);
  }
}

void FiniteSearches::search(Locator::Phase phase,
                            std::string_view operation,
                            AnyTensor const& values,
                            std::optional<TensorOf<std::int64_t>> const& row_count,
                            std::source_location place) {
  if (values.shape().count() > 0) {
    auto const index = index_of({phase, std::string(operation), place, values.shape(), 0});
    issue_search({.number = index * kSearchesOfOne + kResult}, values, row_count, place);
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
  auto const number = word >> Search::kElementBits;
  auto const& searched = searched_.at(number / kSearchesOfOne);
  auto finding = searched.result;
  if (auto const input = number % kSearchesOfOne; input != kResult) {
    finding.phase = Locator::Phase::input;
    // A later step may have had fewer inputs, each with a result of the same name and place.
    finding.shape = input < searched.inputs.size() ? searched.inputs[input] : Shape{};
  }
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
