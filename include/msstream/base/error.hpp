// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>

#include <cstddef>
#include <source_location>
#include <stdexcept>
#include <string>

namespace msstream {

/// Reports that a call into a runtime (CUDA or one of its libraries) failed. The exception has the
/// error code; the message has the code, the call and the call's source location.
class RuntimeError : public std::runtime_error {
 public:
  RuntimeError(std::string const& library,
               int code,
               std::string const& meaning,
               std::string const& call,
               std::source_location where = std::source_location::current())
      : std::runtime_error(text(library,
                                " error ",
                                code,
                                " (",
                                meaning,
                                ") in ",
                                call,
                                " at ",
                                std::string_view(where.file_name()),
                                ":",
                                where.line())),
        code_(code) {}

  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Reports that a CUDA call failed.
class CudaError : public RuntimeError {
 public:
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
  OutOfMemory(std::size_t requested_bytes, std::string const& message)
      : std::runtime_error(message), requested_bytes_(requested_bytes) {}

  [[nodiscard]] std::size_t requested_bytes() const noexcept { return requested_bytes_; }

 private:
  std::size_t requested_bytes_;
};

/// Throws std::invalid_argument, with the concatenated pieces as its message, unless `holds` is
/// true.
template <class... Pieces>
void require(bool holds, Pieces const&... pieces) {
  if (!holds) [[unlikely]] {
    throw std::invalid_argument(text(pieces...));
  }
}

}  // namespace msstream
