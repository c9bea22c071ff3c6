// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace msstream::doctor {

/// A shared library that is loaded at run time, so that the program starts without it.
class SharedLibrary {
 public:
  /// Loads the first of `names` that can be loaded. Without one, the object is empty and has the
  /// loader's message.
  explicit SharedLibrary(std::initializer_list<std::string> names) {
    for (auto const& name : names) {
      handle_ = name.empty() ? nullptr : ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        return;
      }
      if (auto const* const message = ::dlerror(); message != nullptr) {
        problem_ = message;
      }
    }
  }
  SharedLibrary(SharedLibrary const&) = delete;
  SharedLibrary& operator=(SharedLibrary const&) = delete;
  /// Leaves the library loaded: drivers and MPI do not support that they are unloaded.
  ~SharedLibrary() = default;

  [[nodiscard]] explicit operator bool() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] std::string const& problem() const noexcept { return problem_; }
  /// Returns the address of a function; null if the library does not have it.
  [[nodiscard]] void* address(char const* name) const {
    return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
  }
  template <class Function>
  [[nodiscard]] Function* function(char const* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* handle_ = nullptr;
  std::string problem_;
};

}  // namespace msstream::doctor
