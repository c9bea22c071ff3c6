// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace msstream::doctor {

/// A shared library that is loaded at run time, so that the program starts without it.
class SharedLibrary {
 public:
  explicit SharedLibrary(std::string const& name) : SharedLibrary(std::vector<std::string>{name}) {}
  /// Loads the first of `names` that can be loaded. Without one, the object is empty and has the
  /// loader's message: of the first file that is there and cannot be loaded, or else of the first
  /// name.
  explicit SharedLibrary(std::vector<std::string> const& names) {
    bool is_there = false;
    for (auto const& name : names) {
      handle_ = name.empty() ? nullptr : ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        return;
      }
      if (auto const* const message = ::dlerror(); message != nullptr) {
        std::string const text = message;
        bool const is_missing =
            text.starts_with(name + ": ") && text.ends_with("No such file or directory");
        if (problem_.empty() || (!is_there && !is_missing)) {
          problem_ = text;
        }
        is_there = is_there || !is_missing;
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
