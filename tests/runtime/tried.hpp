// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace msstream::testing {

/// The runtime as tests use it: in a build with MSSTREAM_CHECKED it checks what they do.
template <class R>
using Tried = std::conditional_t<(MSSTREAM_CHECKED != 0), Checked<R>, R>;

#if MSSTREAM_CUDA
using Runtimes = ::testing::Types<Tried<Host>, Tried<Cuda>>;
using PlainRuntimes = ::testing::Types<Host, Cuda>;
#else
using Runtimes = ::testing::Types<Tried<Host>>;
using PlainRuntimes = ::testing::Types<Host>;
#endif

struct RuntimeNames {
  template <class R>
  static std::string GetName(int) {
    return std::string(R::name);
  }
};

/// Empty when tests can use the runtime on this machine.
template <class R>
std::string why_unavailable() {
#if MSSTREAM_CUDA
  if (R::name == Cuda::name && Cuda::device_count() == 0) {
    return "no CUDA device";
  }
#endif
  return {};
}

}  // namespace msstream::testing
