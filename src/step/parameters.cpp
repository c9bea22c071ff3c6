// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "step/initial_values.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/parameters.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace msstream {

using detail::AnyRuntime;
using detail::AnyTensor;

class Parameters<AnyRuntime>::State {
 public:
  State(std::shared_ptr<detail::DeviceState> device, ParametersOptions const& options)
      : device_(std::move(device)), seed_(options.seed) {}

  /// Returns the parameter that the entry describes, which is made if no parameter has its name.
  AnyTensor make_or_find(Entry const& wanted,
                         std::optional<Initializer> const& given,
                         std::source_location issued_at) {
    auto const found = by_name_.find(wanted.name);
    if (found != by_name_.end()) {
      auto const& made = made_[found->second];
      require_same(made.entry(), wanted);
      require(!given || *given == made.initializer,
              "Parameters: \"{}\" was made with the initializer {}; it was asked for with {}",
              made.name,
              detail::to_string(made.initializer),
              detail::to_string(given.value_or(made.initializer)));
      return made.tensor;
    }
    require(!wanted.name.empty(), "Parameters: a name is empty; expected at least one character");
    require(wanted.kind != Kind::table || wanted.shape.rank() == 2,
            "Parameters: table \"{}\" of shape {}; expected [rows, width]",
            wanted.name,
            wanted.shape);
    AnyTensor tensor(device_, wanted.dtype, wanted.shape);
    auto const initializer = given.value_or(default_of(wanted.kind));
    detail::fill_with_initial_values(
        tensor, initializer, {seed_, wanted.name}, wanted.name, issued_at);
    made_.push_back({wanted.name, tensor, wanted.kind, initializer});
    try {
      by_name_.emplace(wanted.name, made_.size() - 1);
    } catch (...) {
      made_.pop_back();
      throw;
    }
    return tensor;
  }

  AnyTensor find(std::string_view name, DType dtype) const {
    auto const found = by_name_.find(name);
    if (found == by_name_.end()) {
      throw_invalid_argument_for_missing(name);
    }
    auto const& tensor = made_[found->second].tensor;
    require(tensor.dtype() == dtype,
            "Parameters: \"{}\" is of {}; it was asked for as {}",
            name,
            tensor.dtype(),
            dtype);
    return tensor;
  }

  /// Calls function(parameter) for each parameter whose whole name the pattern matches, and returns
  /// their number. Throws std::invalid_argument, with the name of the call, if there is none.
  template <class Function>
  int for_each_of(char const* call, std::string const& names, Function const& function) const {
    int count = 0;
    for (auto const& parameter : made_) {
      if (detail::matches_pattern(names, parameter.name)) {
        function(parameter);
        ++count;
      }
    }
    require(count > 0,
            "Parameters::{}: \"{}\" matches the whole name of no parameter; there are {}",
            call,
            names,
            names_for_messages());
    return count;
  }

  struct Made {
    std::string name;
    AnyTensor tensor;
    Kind kind;
    Initializer initializer;

    [[nodiscard]] Entry entry() const {
      return {name, tensor.shape(), tensor.dtype(), kind, tensor.immutable()};
    }
  };
  [[nodiscard]] std::set<std::string, std::less<>>& stacks() noexcept { return stacks_; }
  [[nodiscard]] std::vector<std::weak_ptr<detail::OwnedParameters const>>& optimizers() noexcept {
    return optimizers_;
  }
  [[nodiscard]] std::vector<Made> const& made() const noexcept { return made_; }
  [[nodiscard]] bool contains(std::string_view name) const { return by_name_.contains(name); }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

 private:
  [[nodiscard]] static Initializer default_of(Kind kind) noexcept {
    return kind == Kind::dense   ? init::xavier_uniform()
           : kind == Kind::table ? init::uniform(-0.05F, 0.05F)
                                 : init::zeros();
  }
  static void require_same(Entry const& made, Entry const& wanted) {
    require(made.kind == wanted.kind,
            "Parameters: \"{}\" is a {}; it was asked for as a {}",
            made.name,
            kind_of(made),
            kind_of(wanted));
    require(made.shape == wanted.shape,
            "Parameters: \"{}\" has shape {}; it was asked for with shape {}",
            made.name,
            made.shape,
            wanted.shape);
    require(made.dtype == wanted.dtype,
            "Parameters: \"{}\" is of {}; it was asked for as {}",
            made.name,
            made.dtype,
            wanted.dtype);
  }
  [[nodiscard]] static char const* kind_of(Entry const& entry) noexcept {
    return entry.kind == Kind::dense   ? "dense parameter"
           : entry.kind == Kind::table ? "table"
                                       : "buffer";
  }
  /// Returns up to eight names for messages.
  [[nodiscard]] std::string names_for_messages() const {
    constexpr std::size_t kMost = 8;
    std::vector<std::string> quoted;
    for (std::size_t i = 0; i < std::min(made_.size(), kMost); ++i) {
      quoted.push_back(fmt::format("\"{}\"", made_[i].name));
    }
    if (quoted.empty()) {
      return "none";
    }
    auto const rest = made_.size() - quoted.size();
    return fmt::format(
        "{}{}", fmt::join(quoted, ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
  }
  [[noreturn]] void throw_invalid_argument_for_missing(std::string_view name) const {
    detail::throw_invalid_argument(
        fmt::format("Parameters: no parameter \"{}\"; there are {}", name, names_for_messages()));
  }

  std::shared_ptr<detail::DeviceState> const device_;
  std::uint64_t const seed_;
  std::vector<Made> made_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  ///< indices in made_
  std::set<std::string, std::less<>> stacks_;                ///< the names of stacks
  std::vector<std::weak_ptr<detail::OwnedParameters const>> optimizers_;
};

using Body = Parameters<AnyRuntime>;

Body::Parameters(std::shared_ptr<detail::DeviceState> device, ParametersOptions const& options)
    : state_(std::make_shared<State>(std::move(device), options)) {}

std::vector<Body::Entry> Body::entries() const {
  std::vector<Entry> entries;
  for (auto const& parameter : state_->made()) {
    entries.push_back(parameter.entry());
  }
  return entries;
}

std::int64_t Body::count() const noexcept {
  auto const& made = state_->made();
  return std::accumulate(made.begin(), made.end(), std::int64_t{0}, [](auto sum, auto const& one) {
    return sum + one.tensor.count();
  });
}

bool Body::contains(std::string_view name) const {
  return state_->contains(name);
}

std::uint64_t Body::seed() const noexcept {
  return state_->seed();
}

int Body::freeze(std::string const& names) {
  return state_->for_each_of(
      "freeze", names, [](auto const& parameter) { parameter.tensor.freeze(parameter.name); });
}

int Body::unfreeze(std::string const& names) {
  return state_->for_each_of(
      "unfreeze", names, [](auto const& parameter) { parameter.tensor.unfreeze(parameter.name); });
}

void Body::for_each(
    std::function<void(std::string const&, AnyTensor const&, Kind)> const& visit) const {
  for (auto const& parameter : state_->made()) {
    visit(parameter.name, parameter.tensor, parameter.kind);
  }
}

AnyTensor Body::make_or_find(Kind kind,
                             DType dtype,
                             std::string_view name,
                             Shape const& shape,
                             std::optional<Initializer> const& initializer,
                             std::source_location issued_at) {
  return state_->make_or_find(
      {std::string(name), shape, dtype, kind, false}, initializer, issued_at);
}

detail::SourceCheck Body::check_of_list() const {
  return [state = state_, count = state_->made().size()](char const* call, bool) {
    if (state->made().size() > count) {
      throw std::logic_error(
          fmt::format("{}: the list of tensors was made before the parameter \"{}\", and lacks it; "
                      "make the list after the last parameter",
                      call,
                      state->made()[count].name));
    }
  };
}

bool Body::has_stack(std::string_view name) const {
  return state_->stacks().contains(name);
}

void Body::note_stack(std::string_view name) {
  state_->stacks().emplace(name);
}

void Body::note_optimizer(std::shared_ptr<detail::OwnedParameters const> const& owned) const {
  auto& optimizers = state_->optimizers();
  std::erase_if(optimizers,
                [&](auto const& other) { return other.expired() || other.lock() == owned; });
  optimizers.emplace_back(owned);
}

std::vector<std::shared_ptr<detail::OwnedParameters const>> Body::optimizers() const {
  std::vector<std::shared_ptr<detail::OwnedParameters const>> optimizers;
  for (auto const& optimizer : state_->optimizers()) {
    if (auto owned = optimizer.lock()) {
      optimizers.push_back(std::move(owned));
    }
  }
  return optimizers;
}

AnyTensor Body::find(std::string_view name, DType dtype) const {
  return state_->find(name, dtype);
}

}  // namespace msstream
