// SPDX-License-Identifier: Apache-2.0
#include "step/layer_names.hpp"

#include <msstream/step/detail/memory_range.hpp>

#include <algorithm>
#include <utility>

namespace msstream::detail {

std::string common_path(std::string_view first, std::string_view second) {
  constexpr std::string_view kSeparators = "/.";
  auto const common =
      static_cast<std::size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  auto const ends = [&](std::string_view name) {
    return common == name.size() || kSeparators.find(name[common]) != std::string_view::npos;
  };
  if (ends(first) && ends(second)) {
    return std::string(first.substr(0, common));
  }
  auto const separator = first.substr(0, common).find_last_of(kSeparators);
  return std::string(separator == std::string_view::npos ? first : first.substr(0, separator));
}

std::string LayerNames::parameter_of(AnyTensor const& tensor) {
  if (!parameters_ || tensor.shape().count() == 0) {
    return {};
  }
  if (auto const elements = parameters_->count(); elements != named_elements_) {
    names_.clear();
    parameters_->for_each([&](std::string const& name, AnyTensor const& parameter, auto) {
      names_.emplace(MemoryRange::of(parameter), name);
    });
    named_elements_ = elements;
  }
  std::string found;
  names_.for_each_overlap(MemoryRange::of(tensor), [&](auto const& entry) {
    found = found.empty() ? entry.value : common_path(found, entry.value);
  });
  return found;
}

void LayerNames::note_input(AnyTensor const& input) {
  if (auto const parameter = parameter_of(input); !parameter.empty()) {
    next_ = {next_.is_behind ? parameter : common_path(next_.name, parameter), false};
  } else if (next_.name.empty()) {
    results_.for_each_overlap(MemoryRange::of(input),
                              [&](auto const& entry) { next_.name = entry.value.name; });
  }
}

LayerNames::Layer LayerNames::record(std::size_t number, AnyTensor const& result) {
  auto const range = MemoryRange::of(result);
  if (auto* const known = results_.find(range)) {
    *known = next_;
  } else {
    results_.emplace(range, next_);
  }
  recorded_.resize(std::max(recorded_.size(), number + 1));
  recorded_[number] = {with_parts(next_.name), next_.is_behind};
  parts_.clear();
  return std::exchange(next_, {{}, true});
}

LayerNames::Layer LayerNames::take_part() {
  parts_ = with_parts(next_.name);
  return std::exchange(next_, {next_.name, true});
}

LayerNames::Layer LayerNames::of(std::size_t number) const {
  return number < recorded_.size() ? recorded_[number] : Layer{{}, true};
}

std::string LayerNames::with_parts(std::string const& name) const {
  return parts_.empty() ? name : common_path(parts_, name);
}

void LayerNames::forget_results() {
  results_.clear();
  next_ = {{}, true};
  parts_.clear();
}

}  // namespace msstream::detail
