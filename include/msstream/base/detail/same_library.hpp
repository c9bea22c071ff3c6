// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/version.hpp>

/// The symbol by which the linker compares headers and library: it has their version, and whether
/// they have the CUDA runtime, such as msstream_0_1_0_host. src/base/version.cpp defines it.
#if MSSTREAM_CUDA
#define MSSTREAM_LIBRARY_SYMBOL \
  MSSTREAM_SYMBOL(MSSTREAM_VERSION_MAJOR, MSSTREAM_VERSION_MINOR, MSSTREAM_VERSION_PATCH, cuda)
#else
#define MSSTREAM_LIBRARY_SYMBOL \
  MSSTREAM_SYMBOL(MSSTREAM_VERSION_MAJOR, MSSTREAM_VERSION_MINOR, MSSTREAM_VERSION_PATCH, host)
#endif
#define MSSTREAM_SYMBOL(major, minor, patch, runtimes) \
  MSSTREAM_SYMBOL_OF(major, minor, patch, runtimes)
#define MSSTREAM_SYMBOL_OF(major, minor, patch, runtimes) \
  msstream_##major##_##minor##_##patch##_##runtimes

extern "C" char const MSSTREAM_LIBRARY_SYMBOL;

namespace msstream::detail {

/// Makes each program that includes a public header need the symbol, so that a program with the
/// headers of another library does not link. No code reads the pointer. Hidden, it is in each
/// program and shared library once. `retain` keeps it when the linker discards unused sections.
[[gnu::used, gnu::visibility("hidden")]]
#if __has_cpp_attribute(gnu::retain)
[[gnu::retain]]
#endif
inline char const* const MSSTREAM_LIBRARY_SYMBOL = &::MSSTREAM_LIBRARY_SYMBOL;

}  // namespace msstream::detail
