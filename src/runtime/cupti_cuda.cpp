// SPDX-License-Identifier: Apache-2.0
#include "cupti_cuda.hpp"

#if MSSTREAM_HAS_CUPTI

#include <msstream/base/text.hpp>

#include <dlfcn.h>

namespace msstream::detail {

namespace {

/// Loaded at run time: a program that does not check needs no libcupti.
void* load_cupti() {
  for (char const* const name :
       {"libcupti.so." MSSTREAM_CUDA_MAJOR,
        "libcupti.so",
        MSSTREAM_CUDA_LIBRARIES "/libcupti.so." MSSTREAM_CUDA_MAJOR,
        MSSTREAM_CUDA_LIBRARIES "/../extras/CUPTI/lib64/libcupti.so." MSSTREAM_CUDA_MAJOR}) {
    if (void* const library = dlopen(name, RTLD_NOW)) {
      return library;
    }
  }
  return nullptr;
}

template <class Function>
Function* function_of(void* library, char const* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string subscribe_to_runtime_calls(CUpti_CallbackFunc callback,
                                       std::span<CUpti_CallbackId const> calls,
                                       std::span<CUpti_CallbackId const> more_calls) {
  void* const library = load_cupti();
  if (library == nullptr) {
    return "libcupti.so." MSSTREAM_CUDA_MAJOR
           " cannot be loaded; add its folder to LD_LIBRARY_PATH";
  }
  auto* const subscribe = function_of<decltype(cuptiSubscribe)>(library, "cuptiSubscribe");
  auto* const enable = function_of<decltype(cuptiEnableCallback)>(library, "cuptiEnableCallback");
  if (subscribe == nullptr || enable == nullptr) {
    return "libcupti has no callbacks";
  }
  CUpti_SubscriberHandle subscriber = nullptr;
  if (auto const code = subscribe(&subscriber, callback, nullptr); code != CUPTI_SUCCESS) {
    return text(
        "cuptiSubscribe failed with ", static_cast<int>(code), "; another tool may have it");
  }
  for (auto const ids : {calls, more_calls}) {
    for (auto const id : ids) {
      if (auto const code = enable(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, id);
          code != CUPTI_SUCCESS) {
        return text("cuptiEnableCallback failed with ", static_cast<int>(code), " for call ", id);
      }
    }
  }
  return {};
}

}  // namespace msstream::detail

#endif
