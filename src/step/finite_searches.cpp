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

/// Returns the words of a message that say in which layer the operation is; nothing if no layer is
/// known, or if the operation has the parameter's name already.
[[nodiscard]] std::string layer_text(FiniteSearches::Locator::Finding const& found) {
  if (found.layer.empty() || found.phase == FiniteSearches::Locator::Phase::update) {
    return {};
  }
  return fmt::format(" {} \"{}\"", found.is_behind_layer ? "behind" : "in", found.layer);
}

}  // namespace

FiniteSearches::FiniteSearches(std::shared_ptr<DeviceState> const& device,
                               std::optional<Parameters<AnyRuntime>> parameters,
                               std::source_location issued_at)
    : found_(device, Shape{Search::kWords}), layers_(std::move(parameters)) {
  forget(issued_at);
}

void FiniteSearches::forget(std::source_location issued_at) {
  fill_any(found_.any(), 0xFF, issued_at);
}

std::size_t FiniteSearches::index_of(Locator::Finding finding) {
  auto key = fmt::format("{} {} {} {}:{}:{}",
                         text(finding.phase),
                         finding.operation,
                         finding.layer,
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

void FiniteSearches::begin_step() {
  occurrences_.clear();
  inputs_.clear();
  layers_.forget_results();
}

void FiniteSearches::note_input(AnyTensor const& input, bool is_result) {
  layers_.note_input(input);
  if (!is_result && input.shape().count() > 0) {
    inputs_.push_back(input);
  }
}

void FiniteSearches::search_part(std::string_view operation,
                                 AnyTensor const& part,
                                 std::source_location place) {
  search_result(operation, layers_.take_part(), part, place);
}

void FiniteSearches::search_operation(std::size_t number,
                                      std::string_view operation,
                                      AnyTensor const& result,
                                      std::source_location place) {
  search_result(operation, layers_.record(number, result), result, place);
}

void FiniteSearches::search_result(std::string_view operation,
                                   LayerNames::Layer const& layer,
                                   AnyTensor const& result,
                                   std::source_location place) {
  auto const inputs = std::exchange(inputs_, {});
  if (result.shape().count() == 0) {
    return;
  }
  auto const index = index_of({.phase = Locator::Phase::forward,
                               .operation = std::string(operation),
                               .place = place,
                               .shape = result.shape(),
                               .element = 0,
                               .layer = layer.name,
                               .is_behind_layer = layer.is_behind});
  auto const first = index * kSearchesOfOne;
  auto const number = first + kResult;
  issue_search({.number = number}, result, {}, place);
  auto& searched = searched_[index].inputs;
  searched.clear();
  for (auto const& input : inputs) {
    auto const i = std::min(searched.size(), kResult - 1);
    searched.resize(i);
    searched.push_back({input.shape(), layers_.parameter_of(input)});
    issue_search({.number = first + i, .result = number, .is_last_input = &input == &inputs.back()},
                 input,
                 {},
                 place);
  }
}

void FiniteSearches::search_gradient(AnyTensor const& of,
                                     AnyTensor const& gradient,
                                     std::optional<TensorOf<std::int64_t>> const& row_count,
                                     std::optional<PlayedBack> const& by,
                                     std::source_location issued_at) {
  LayerNames::Layer layer{layers_.parameter_of(of), false};
  if (layer.name.empty() && by) {
    layer = layers_.of(by->number);
  }
  search({.phase = Locator::Phase::backward,
          .operation = std::string(by ? by->name : "loss"),
          .place = by ? by->place : issued_at,
          .shape = gradient.shape(),
          .element = 0,
          .layer = std::move(layer.name),
          .is_behind_layer = layer.is_behind},
         gradient,
         row_count);
}

void FiniteSearches::search_update(std::string const& parameter,
                                   AnyTensor const& values,
                                   std::source_location issued_at) {
  search({.phase = Locator::Phase::update,
          .operation = parameter,
          .place = issued_at,
          .shape = values.shape(),
          .element = 0,
          .layer = parameter,
          .is_behind_layer = false},
         values,
         std::nullopt);
}

void FiniteSearches::search(Locator::Finding finding,
                            AnyTensor const& values,
                            std::optional<TensorOf<std::int64_t>> const& row_count) {
  if (values.shape().count() > 0) {
    auto const place = finding.place;
    auto const index = index_of(std::move(finding));
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
    auto const is_known = input < searched.inputs.size();
    finding.shape = is_known ? searched.inputs[input].shape : Shape{};
    if (is_known && !searched.inputs[input].parameter.empty()) {
      finding.layer = searched.inputs[input].parameter;
      finding.is_behind_layer = false;
    }
  }
  finding.element =
      static_cast<std::int64_t>(word & ((std::uint64_t{1} << Search::kElementBits) - 1));
  return finding;
}

}  // namespace detail

using detail::AnyRuntime;

NonFiniteLocator<AnyRuntime>::NonFiniteLocator(GradientTape<AnyRuntime>& tape,
                                               std::source_location issued_at)
    : NonFiniteLocator(tape, std::nullopt, issued_at) {}

NonFiniteLocator<AnyRuntime>::NonFiniteLocator(GradientTape<AnyRuntime>& tape,
                                               Parameters<AnyRuntime> const& parameters,
                                               std::source_location issued_at)
    : NonFiniteLocator(tape, std::optional(parameters), issued_at) {}

NonFiniteLocator<AnyRuntime>::NonFiniteLocator(GradientTape<AnyRuntime>& tape,
                                               std::optional<Parameters<AnyRuntime>> parameters,
                                               std::source_location issued_at)
    : tape_(tape) {
  auto& state = tape_.state();
  if (state.searches != nullptr) {
    throw std::logic_error("NonFiniteLocator: the tape has one already");
  }
  state.searches =
      std::make_unique<detail::FiniteSearches>(state.device, std::move(parameters), issued_at);
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
  if (!found) {
    return;
  }
  auto const called = fmt::format("\"{}\"{}, called at {}:{},",
                                  found->operation,
                                  detail::layer_text(*found),
                                  found->place.file_name(),
                                  found->place.line());
  if (found->phase == Phase::input) {
    throw std::runtime_error(fmt::format(
        "an input {} of {} had a NaN or an infinity before, and no recorded operation made it: "
        "element {} of data or of a parameter",
        found->shape,
        called,
        found->element));
  }
  throw std::runtime_error(fmt::format("{} of {} made a NaN or an infinity: element {} of {} {}",
                                       detail::text(found->phase),
                                       called,
                                       found->element,
                                       found->phase == Phase::forward    ? "a result"
                                       : found->phase == Phase::backward ? "a gradient"
                                                                         : "a parameter",
                                       found->shape));
}

void NonFiniteLocator<AnyRuntime>::forget(std::source_location issued_at) {
  tape_.state().searches->forget(issued_at);
}

}  // namespace msstream
