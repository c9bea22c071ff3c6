// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

namespace msstream::detail {

template <class Signature>
class FunctionRef;

/// Refers to a function object of any type, for the time of a call that takes it as an argument:
/// the object must outlive the reference. Allocates nothing, unlike std::function.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Function>
    requires(!std::same_as<Function, FunctionRef> &&
             std::is_invocable_r_v<Result, Function const&, Args...>)
  // NOLINTNEXTLINE(google-explicit-constructor): a function is passed as a FunctionRef
  FunctionRef(Function const& function)
  noexcept
      : object_(std::addressof(function)), call_([](void const* object, Args... args) -> Result {
          return (*static_cast<Function const*>(object))(args...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, args...); }

 private:
  void const* object_;
  Result (*call_)(void const*, Args...);
};

}  // namespace msstream::detail
