// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstddef>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream {

/// Reports that a call into a runtime (CUDA or one of its libraries) failed. The exception has the
/// error code; the message has the code, the call and the call's source location.
class RuntimeError : public std::runtime_error {
 public:
  /// Makes the error of a call of a library, whose name is in the message.
  RuntimeError(std::string const& library,
               int code,
               std::string const& meaning,
               std::string const& call,
               std::source_location where = std::source_location::current());

  /// Returns the error code of the library.
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Reports that a CUDA call failed.
class CudaError : public RuntimeError {
 public:
  /// Makes the error of a call of CUDA, with its code and its place.
  CudaError(int code,
            std::string const& meaning,
            std::string const& call,
            std::source_location where = std::source_location::current())
      : RuntimeError("CUDA", code, meaning, call, where) {}
};

/// Reports that an allocation did not fit, and that nothing was changed. The message has the
/// requested size and the current users of the memory.
class OutOfMemory : public std::runtime_error {
 public:
  /// Makes the error of a request of so many bytes.
  OutOfMemory(std::size_t requested_bytes, std::string const& message)
      : std::runtime_error(message), requested_bytes_(requested_bytes) {}

  /// Returns the size of the request that was refused.
  [[nodiscard]] std::size_t requested_bytes() const noexcept { return requested_bytes_; }

 private:
  std::size_t requested_bytes_;
};

namespace detail {

[[noreturn]] void throw_invalid_argument(std::string_view message);

}  // namespace detail

/// Throws std::invalid_argument with the message unless `holds`.
inline void require(bool holds, std::string_view message) {
  if (!holds) [[unlikely]] {
    detail::throw_invalid_argument(message);
  }
}

}  // namespace msstream
