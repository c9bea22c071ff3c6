// SPDX-License-Identifier: Apache-2.0
// This file is compiled with the options of the kernels for the host, and says what they chose. It
// must also run on a processor that lacks these instruction sets, so that it computes nothing.
#include "doctor/facts/compiled_for.hpp"

namespace msstream::doctor {
namespace {

constexpr char const* kSets[] = {
#ifdef __SSE4_2__
    "sse4_2",
#endif
#ifdef __AVX__
    "avx",
#endif
#ifdef __AVX2__
    "avx2",
#endif
#ifdef __FMA__
    "fma",
#endif
#ifdef __AVX512F__
    "avx512f",
#endif
#ifdef __AVX512BW__
    "avx512bw",
#endif
#ifdef __AVX512VL__
    "avx512vl",
#endif
    nullptr,
};

}  // namespace

char const* const* compiled_instruction_sets() noexcept {
  return kSets;
}

bool is_compiled_for_native() noexcept {
  return MSSTREAM_NATIVE != 0;
}

}  // namespace msstream::doctor
