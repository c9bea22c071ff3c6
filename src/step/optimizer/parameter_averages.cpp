// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "base/unheard_failure.hpp"
#include "optimizer/averages.hpp"
#include "step/optimizer/swapped_weights.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/step/detail/memory_range.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

using detail::AnyRuntime;
using detail::AnyTensor;
using detail::Floats;

class ParameterAverages<AnyRuntime>::State {
 public:
  explicit State(float decay) : decay_(decay) {
    require(decay >= 0.0F && decay < 1.0F,
            "ParameterAverages: a decay of {}; expected a number in [0, 1)",
            decay);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() { detail::SwappedWeights::remove(swapped_); }

  void add(std::string name, AnyTensor const& weight, std::source_location issued_at) {
    require_new(name, weight);
    Parameter made{std::move(name), weight, Floats(weight.device(), weight.shape())};
    begin(made, issued_at);
    parameters_.push_back(std::move(made));
  }
  void restart(std::source_location issued_at) {
    require_not_swapped("restart");
    refuse_swapped("ParameterAverages::restart");
    for (auto const& parameter : parameters_) {
      begin(parameter, issued_at);
    }
  }
  void add(Parameters<AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           std::source_location issued_at) {
    using Kind = Parameters<AnyRuntime>::Kind;
    bool has_match = false;
    std::vector<std::pair<std::string, AnyTensor>> found;
    parameters.for_each([&](std::string const& name, AnyTensor const& tensor, Kind kind) {
      bool const is_selected = names ? kind != Kind::buffer && detail::matches_pattern(*names, name)
                                     : kind == Kind::dense;
      if (!is_selected || tensor.immutable()) {
        return;
      }
      has_match = true;
      if (average_of(tensor) == nullptr) {
        found.emplace_back(name, tensor);
      }
    });
    require(has_match || !names,
            "ParameterAverages::add: \"{}\" matches the whole name of no parameter to be averaged",
            names.value_or(""));
    for (auto const& [name, weight] : found) {
      require_new(name, weight);
    }
    for (auto& [name, weight] : found) {
      add(std::move(name), weight, issued_at);
    }
  }
  void update(std::source_location issued_at) {
    require_not_swapped("update");
    refuse_swapped("ParameterAverages::update");
    issue_for(parameters_, Use::update, issued_at, [decay = decay_](auto stream, auto tensors) {
      ops::kernels::update_averages(stream, decay, tensors);
    });
  }
  void swap_in(std::source_location issued_at) {
    require_not_swapped("swap_in");
    refuse_swapped("ParameterAverages::swap_in");
    std::vector<memory::BlockRef> blocks;
    for (auto& parameter : parameters_) {
      auto const& weight = parameter.weight;
      if (weight.immutable()) {
        throw std::logic_error(fmt::format(
            "ParameterAverages::swap_in: \"{}\" of shape {} is frozen; unfreeze it first",
            parameter.name,
            weight.shape()));
      }
      if (weight.dtype() != DType::float32) {
        parameter.kept.emplace(weight.device(), weight.dtype(), weight.shape());
      }
      blocks.push_back(weight.block());
      blocks.push_back(parameter.average.block());
    }
    issue_for(parameters_, Use::swap, issued_at, [](auto stream, auto tensors) {
      ops::kernels::swap_averages_in(stream, tensors);
    });
    is_swapped_ = true;
    swapped_ = std::move(blocks);
    detail::SwappedWeights::add(swapped_);
  }
  void swap_out(std::source_location issued_at) {
    issue_for(parameters_, Use::swap, issued_at, [](auto stream, auto tensors) {
      ops::kernels::swap_averages_out(stream, tensors);
    });
    is_swapped_ = false;
    detail::SwappedWeights::remove(swapped_);
    swapped_.clear();
    for (auto& parameter : parameters_) {
      parameter.kept.reset();
    }
  }
  template <class Function>
  void for_each(Function const& function) const {
    require_not_swapped("visit_state");
    for (auto const& parameter : parameters_) {
      function("average/" + parameter.name, parameter.average);
    }
  }
  /// Returns the average of exactly the elements of a tensor, or null if it has none.
  [[nodiscard]] Floats const* average_of(AnyTensor const& tensor) const {
    auto const found = std::ranges::find_if(parameters_, [&](Parameter const& parameter) {
      return parameter.weight.data() == tensor.data() && parameter.weight.count() == tensor.count();
    });
    return found == parameters_.end() ? nullptr : &found->average;
  }
  /// Calls function(name, tensor) for each parameter of the store, with its average if it has one.
  /// Averages of weights of 16 bits are rounded into tensors of their own. Returns a function that
  /// rounds them again, or null if there are none.
  template <class Function>
  [[nodiscard]] detail::SourceCheck for_each_of(Parameters<AnyRuntime> const& parameters,
                                                Function const& function,
                                                std::source_location issued_at) const {
    require_not_swapped("as_weights");
    std::size_t averaged = 0;
    std::vector<Parameter> rounded;
    parameters.for_each([&](auto const& name, AnyTensor const& tensor, auto) {
      auto const* const average = average_of(tensor);
      averaged += average != nullptr ? 1 : 0;
      if (average != nullptr && tensor.dtype() != DType::float32) {
        rounded.push_back({name, {tensor.device(), tensor.dtype(), tensor.shape()}, *average});
        return function(name, rounded.back().weight);
      }
      function(name, average != nullptr ? average->any() : tensor);
    });
    require(averaged > 0 || parameters_.empty(),
            "ParameterAverages::as_weights: no parameter of the store has an average");
    if (rounded.empty()) {
      return nullptr;
    }
    auto const round = [](std::vector<Parameter> const& all, std::source_location from) {
      issue_for(all, Use::round, from, [](auto stream, auto tensors) {
        ops::kernels::swap_averages_in(stream, tensors);
      });
    };
    round(rounded, issued_at);
    return [round, rounded = std::move(rounded), issued_at](std::string_view call, bool saves) {
      for (auto const& parameter : rounded) {
        detail::SwappedWeights::refuse(
            std::string(call).c_str(), parameter.name, parameter.average.any());
      }
      if (saves) {
        return round(rounded, issued_at);
      }
      if (call == "checkpoint::load") {
        throw std::logic_error(
            fmt::format("checkpoint::load: \"{}\" is an average that is rounded when it is saved; "
                        "load the parameters, or the averages",
                        rounded.front().name));
      }
    };
  }

 private:
  struct Parameter {
    std::string name;
    AnyTensor weight;
    Floats average;
    std::optional<AnyTensor> kept = {};  ///< the weight, if it has 16 bits, while it is swapped
  };
  /// The purpose of an operation: it writes averages, both weights and averages, or weights.
  enum class Use { update, swap, round };

  /// Gives the average the value of the weight.
  static void begin(Parameter const& parameter, std::source_location issued_at) {
    if (parameter.weight.dtype() == DType::float32) {
      detail::copy_on_device(parameter.average.any(), parameter.weight, issued_at);
      return;
    }
    detail::fill_any(parameter.average.any(), 0, issued_at);
    // Widens the weight, which a decay of 0 adds to the zeros.
    issue_for({parameter}, Use::update, issued_at, [](auto stream, auto tensors) {
      ops::kernels::update_averages(stream, 0.0F, tensors);
    });
  }
  void require_new(std::string const& name, AnyTensor const& weight) const {
    require_not_swapped("add");
    auto const elements = detail::MemoryRange::of(weight);
    for (auto const& other : parameters_) {
      require(other.name != name, "ParameterAverages: two parameters named \"{}\"", name);
      require(!elements.overlaps(detail::MemoryRange::of(other.weight)),
              "ParameterAverages: \"{}\" of shape {} shares elements with \"{}\" of shape {}: "
              "swap_in() would exchange them twice",
              name,
              weight.shape(),
              other.name,
              other.weight.shape());
    }
    require(!weight.immutable(),
            "ParameterAverages: \"{}\" of shape {} is frozen",
            name,
            weight.shape());
    detail::SwappedWeights::refuse("ParameterAverages::add", name, weight);
  }
  void require_not_swapped(char const* call) const {
    if (is_swapped_) {
      throw std::logic_error(std::string("ParameterAverages::") + call +
                             ": the averages are swapped in; end the guard of swap_in() first");
    }
  }
  void refuse_swapped(char const* call) const {
    for (auto const& parameter : parameters_) {
      detail::SwappedWeights::refuse(call, parameter.name, parameter.weight);
    }
  }
  template <class Launch>
  static void issue_for(std::vector<Parameter> const& parameters,
                        Use use,
                        std::source_location issued_at,
                        Launch const& launch) {
    if (parameters.empty()) {
      return;
    }
    detail::Uses<AnyRuntime, AccessMode::read> read;
    detail::Uses<AnyRuntime, AccessMode::write> written;
    std::vector<ops::kernels::AveragedWeights> tensors;
    for (auto const& [name, weight, average, kept] : parameters) {
      use == Use::update ? read.add(weight) : written.add(weight);
      use == Use::round ? read.add(average) : written.add(average);
      if (kept) {
        written.add(*kept);
      }
      tensors.push_back({weight.data(),
                         average.data(),
                         kept ? kept->data() : nullptr,
                         weight.count(),
                         weight.dtype()});
    }
    issue(
        use == Use::update ? "update_averages"
        : use == Use::swap ? "swap_averages"
                           : "round_averages",
        read,
        written,
        [launch, tensors = std::move(tensors)](auto stream) {
          launch(stream, std::span<ops::kernels::AveragedWeights const>(tensors));
        },
        {},
        issued_at);
  }

  float decay_;
  std::vector<Parameter> parameters_;
  bool is_swapped_ = false;
  std::vector<memory::BlockRef> swapped_;  ///< the blocks in SwappedWeights
};

ParameterAverages<AnyRuntime>::ParameterAverages(float decay)
    : state_(std::make_unique<State>(decay)) {}

ParameterAverages<AnyRuntime>::~ParameterAverages() = default;

ParameterAverages<AnyRuntime>::Swapped::Swapped(ParameterAverages& averages,
                                                std::source_location issued_at)
    : averages_(averages), issued_at_(issued_at) {
  averages_.state_->swap_in(issued_at_);
}

ParameterAverages<AnyRuntime>::Swapped::~Swapped() {
  detail::UnheardFailure const unheard;
  try {
    restore(issued_at_);
  } catch (...) {
    detail::UnheardFailure::log("ParameterAverages::Swapped", std::current_exception());
  }
}

void ParameterAverages<AnyRuntime>::Swapped::restore(std::source_location issued_at) {
  if (!is_restored_) {
    averages_.state_->swap_out(issued_at);
    is_restored_ = true;
  }
}

void ParameterAverages<AnyRuntime>::add(std::string name,
                                        AnyTensor const& weight,
                                        std::source_location issued_at) {
  state_->add(std::move(name), weight, issued_at);
}

void ParameterAverages<AnyRuntime>::add(Parameters<AnyRuntime> const& parameters,
                                        std::optional<std::string> const& names,
                                        std::source_location issued_at) {
  state_->add(parameters, names, issued_at);
}

detail::SourceCheck ParameterAverages<AnyRuntime>::visit_as_weights(
    Parameters<AnyRuntime> const& parameters,
    std::function<void(std::string const&, AnyTensor const&)> const& visit,
    std::source_location issued_at) const {
  return state_->for_each_of(parameters, visit, issued_at);
}

void ParameterAverages<AnyRuntime>::update(std::source_location issued_at) {
  state_->update(issued_at);
}

void ParameterAverages<AnyRuntime>::restart(std::source_location issued_at) {
  state_->restart(issued_at);
}

void ParameterAverages<AnyRuntime>::visit_state(
    std::function<void(std::string const&, Floats const&)> const& visit) const {
  state_->for_each(visit);
}

}  // namespace msstream
